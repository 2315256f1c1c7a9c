package image

import (
	"bytes"
	"context"
)

// Unpack unpacks plain or compressed layers, the lowest first, into the empty folder
// dir. It fails if the image exceeds maxBytes or maxEntries.
func Unpack(ctx context.Context, dir string, maxBytes, maxEntries int64, layers ...[]byte) (err error) {
	allowed := budget{bytes: maxBytes, entries: maxEntries}
	t, err := newUnpacker(dir, &allowed)
	if err != nil {
		return err
	}
	defer func() {
		if e := t.close(); err == nil {
			err = e
		}
	}()
	left := archiveBytes(&allowed)
	for _, l := range layers {
		if err := t.unpackLayer(ctx, bytes.NewReader(l), &left); err != nil {
			return err
		}
	}
	return nil
}

// Errors of Unpack for images that exceed maxBytes or maxEntries.
var (
	ErrTooLarge = errTooLarge
	ErrTooMany  = errTooMany
)

// IsImageError reports whether err is an error about a defect of the image.
func IsImageError(err error) bool {
	_, ok := err.(*imageError) //nolint:errorlint // unpack returns it as it is
	return ok
}

// Waiting returns the number of callers that wait for pulls.
func Waiting(s *Store) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pulls {
		n += p.waiters
	}
	return n
}
