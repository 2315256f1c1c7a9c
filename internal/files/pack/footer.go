package pack

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"golang.org/x/sync/errgroup"
)

// Footer returns the segments of a pack in the order of their offsets. For a deleted
// pack, it returns the segments of the compacted packs that replace the pack. If there
// are none, the error wraps blob.ErrNotFound.
func (s *Store) Footer(ctx context.Context, org, id string) ([]format.Segment, error) {
	segments, err := ReadSegments(ctx, s.Store, Key(org, id))
	if errors.Is(err, blob.ErrNotFound) {
		var later []format.Segment
		if later, err = s.compactedSegments(ctx, Key(org, id), err); err == nil {
			return later, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the footer of pack %s: %w", id, err)
	}
	return segments, nil
}

// ReadSegments returns the segments in the footer of a pack, compacted or not.
func ReadSegments(ctx context.Context, s blob.Store, key string) ([]format.Segment, error) {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	read := func(offset, n int64) ([]byte, error) { return ReadRange(ctx, s, key, offset, n) }
	if _, n, _ := SplitGeneration(key); n > 0 {
		return format.DecodeCompacted(info.Size, read)
	}
	return format.DecodeFooter(info.Size, read)
}

// compactedSegments returns the segments of the packs that replace a deleted pack. If
// there are no such packs, the error is the argument missing.
func (s *Store) compactedSegments(ctx context.Context, key string, missing error) ([]format.Segment, error) {
	t, err := s.Compacted(ctx, key, nil)
	if err != nil {
		return nil, err
	} else if t == nil {
		return nil, missing
	}
	by := map[uint32]format.Segment{}
	for _, o := range t.objects {
		segments, err := ReadSegments(ctx, s.Store, o)
		if err != nil {
			return nil, err
		}
		for _, s := range segments {
			by[s.Offset] = s
		}
	}
	all := make([]format.Segment, 0, len(t.all))
	for _, e := range t.all {
		all = append(all, by[e.offset])
	}
	return all, nil
}

// ReadRange returns n bytes of an object from offset. If the object is too short, the
// error is format.ErrDamaged.
func ReadRange(ctx context.Context, s blob.Store, key string, offset, n int64) ([]byte, error) {
	r, err := s.Get(ctx, key, offset, n)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err = io.ReadFull(r, b); IsEOF(err) {
		err = format.ErrDamaged
	}
	return b, errors.Join(err, r.Close())
}

// IsDamage reports whether an error means that content is damaged or missing, as
// opposed to a failed access.
func IsDamage(err error) bool {
	return errors.Is(err, format.ErrDamaged) || errors.Is(err, format.ErrCorrupt) || errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrDamaged)
}

// IsEOF reports whether err wraps io.EOF or io.ErrUnexpectedEOF.
func IsEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// Resize returns a buffer of n bytes, which is b if b is large enough.
func Resize(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// Exists reports whether an object exists, damaged or not.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	_, err := s.Stat(ctx, key)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return false, nil
	case err != nil && !errors.Is(err, blob.ErrDamaged):
		return false, fmt.Errorf("finding an object: %w", err)
	}
	return true, nil
}

// Missing returns those of the packs that are not in the store, in the given order.
func (s *Store) Missing(ctx context.Context, org string, packs []string) ([]string, error) {
	gone := make([]bool, len(packs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(ParallelStats)
	for i, id := range packs {
		group.Go(func() error {
			there, err := s.Exists(ctx, Key(org, id))
			gone[i] = !there
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []string
	for i, id := range packs {
		if gone[i] {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// ParallelStats is the maximum number of packs that are looked up concurrently.
const ParallelStats = 16
