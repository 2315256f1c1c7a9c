package index

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/files/format"
)

// Places returns one Chunk for each place of the chunk h, ordered by pack and offset.
func (x *Index) Places(org string, h format.Hash) ([]format.Chunk, error) {
	var all []format.Chunk
	err := x.with(org, func(s *shard) error {
		return s.find(&h, func(c format.Chunk) bool { all = append(all, c); return true })
	})
	slices.SortFunc(all, func(a, b format.Chunk) int {
		return cmp.Or(cmp.Compare(a.Place.Pack, b.Place.Pack), cmp.Compare(a.Place.Offset, b.Place.Offset))
	})
	return all, err
}

// MaxLoaded is the maximum number of organisations in memory that are not in use.
const MaxLoaded = maxLoaded

// Loaded returns the number of organisations in memory. It waits until none is in use.
func (x *Index) Loaded() (n int) {
	x.mu.Lock()
	shards := slices.Collect(maps.Values(x.shards))
	x.mu.Unlock()
	for _, s := range shards {
		s.mu.Lock()
		if s.log != nil {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// Hold keeps the organisation's shard in use until the shard is released. Hold returns
// when the shard is open, and release when the shard is no longer in use.
func (x *Index) Hold(org string) (release func()) {
	held, done, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(released)
		_ = x.with(org, func(*shard) error {
			close(held)
			<-done
			return nil
		})
	}()
	<-held
	return func() { close(done); <-released }
}
