package s3

import (
	"context"
	"time"
)

// UseSmallParts sets the part size to the smallest that servers accept, and the
// page size to 3, so that small tests use several of each.
func (s *Store) UseSmallParts() { s.partSize, s.pageSize = 5<<20, 3 }

// UseShortStall sets a stall limit that a busy server may exceed as well.
func (s *Store) UseShortStall() { s.stall = time.Second }

// Uploads returns the number of uploads that are neither completed nor aborted.
func (s *Store) Uploads(ctx context.Context) (int, error) {
	found, err := s.abandonedUploads(ctx, time.Now().Add(time.Hour))
	return len(found), err
}

// Connect is Open without the probe.
var Connect = connect
