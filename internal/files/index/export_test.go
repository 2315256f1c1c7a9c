package index

import (
	"cmp"
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

// Hold keeps the organisation's shard in use until release is called. Hold returns
// when the shard is open.
func (x *Index) Hold(org string) (release func()) {
	held, done := make(chan struct{}), make(chan struct{})
	go func() {
		_ = x.with(org, func(*shard) error {
			close(held)
			<-done
			return nil
		})
	}()
	<-held
	return func() { close(done) }
}
