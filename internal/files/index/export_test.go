package index

import (
	"cmp"
	"slices"
)

// Places returns all places of the chunk, ordered by the names of the packs.
func (x *Index) Places(org string, h Hash) ([]Place, error) {
	var all []Place
	err := x.with(org, func(s *shard) error {
		return s.find(&h, func(p Place) bool { all = append(all, p); return true })
	})
	slices.SortFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Pack, b.Pack), cmp.Compare(a.Offset, b.Offset))
	})
	return all, err
}

// Hold keeps the organisation's shard in use until release is called.
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
