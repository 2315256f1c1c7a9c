package s3

import (
	"context"
	"time"
)

// UseSmallParts sets the part size to 5 MiB, the smallest that servers accept, and the page
// size of lists to 3 objects, so that tests with little data use several parts and pages.
func (s *Store) UseSmallParts() { s.partSize, s.pageSize = 5<<20, 3 }

// UseShortStall sets the stall limit to one second. A slow server can exceed this limit
// without a fault, so a test must accept additional requests.
func (s *Store) UseShortStall() { s.stall = time.Second }

// Uploads returns the number of uploads that are neither completed nor aborted.
func (s *Store) Uploads(ctx context.Context) (int, error) {
	found, err := s.abandonedUploads(ctx, time.Now().Add(time.Hour))
	return len(found), err
}

// Connect is Open without the probe.
var Connect = connect
