package app

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/store"
)

// garbage tells the library what the database has of collections.
type garbage struct{ store.Collections }

// Condemned gives the keys of what a collection may delete.
func (g garbage) Marked(ctx context.Context, org string) (int64, []string, error) {
	epoch, list, err := g.Collections.MarkedObjects(ctx, org)
	if err != nil {
		return 0, nil, err
	}
	keys := make([]string, len(list))
	for i, c := range list {
		keys[i] = c.Key
	}
	return epoch, keys, nil
}

// learning is the chore that lets the index of chunks know what other servers
// stored and deleted.
func (s *server) learning() jobs.Job {
	return jobs.Job{Name: "learn where chunks rest", Every: time.Hour, Do: s.upkeep().SyncIndexes}
}
