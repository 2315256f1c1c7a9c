package app

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/maintenance"
	"github.com/stint-dev/stint/internal/store"
)

func (s *server) artifacts() *artifacts.Service {
	return artifacts.New(artifacts.Config{Store: s.db, Library: s.library, Quota: s.quota, IDs: s.ids, Now: time.Now})
}

// retention returns the rule for removing old versions.
func (s *server) retention() store.Retention {
	r := store.Retention{Last: s.c.KeepVersions}
	if s.c.KeepFor > 0 {
		r.Since = stint.TimeOf(time.Now().Add(-s.c.KeepFor))
	}
	return r
}

// retentionEvery returns how often old versions are removed: at least as often as
// garbage is collected, so that a collection frees the space of old versions.
func (s *server) retentionEvery() time.Duration {
	if s.c.GCEvery > 0 {
		return min(10*time.Minute, s.c.GCEvery)
	}
	return 10 * time.Minute
}

// partitioner is a store with partitions that are created in advance.
type partitioner interface {
	EnsurePartitions(ctx context.Context, now time.Time) error
}

// jobs returns the background jobs of this server.
func (s *server) jobs() []jobs.Job {
	all := []jobs.Job{
		{Name: "end the runs of lost workers", Every: s.c.LeaseTTL / 3, Do: func(ctx context.Context) error {
			_, err := s.dispatch.Reap(ctx)
			return err
		}},
		{Name: "delete expired responses to requests", Every: 10 * time.Minute, Do: func(ctx context.Context) error {
			_, err := s.db.PurgeRequests(ctx, stint.TimeOf(time.Now()))
			return err
		}},
		{Name: "record when tokens were used", Every: 10 * time.Second, Do: s.auth.Flush},
		{Name: "store popular archives", Every: 5 * time.Second, Do: s.library.StorePopularArchives},
		{Name: "remove versions by retention", Every: s.retentionEvery(), Do: func(ctx context.Context) error {
			_, err := s.db.PruneVersions(ctx, s.retention())
			return err
		}},
		{Name: "record what this worker offers", Every: describeEvery, Do: s.offers.describe},
		{Name: "synchronize chunk indexes", Every: time.Hour, Do: s.maintenance().SyncIndexes},
	}
	if s.c.GCEvery > 0 {
		all = append(all, jobs.Job{Name: "collect garbage", Every: s.c.GCEvery, Do: s.collectGarbage})
	}
	if s.images != nil {
		all = append(all, jobs.Job{Name: "remove unused images", Every: 10 * time.Minute, Do: s.images.Collect})
	}
	if limit := s.c.QueueExpiry; limit > 0 {
		all = append(all, jobs.Job{Name: "end runs that waited too long", Every: time.Minute, Do: func(ctx context.Context) error {
			_, err := s.dispatch.Expire(ctx, stint.TimeOf(time.Now().Add(-limit)))
			return err
		}})
	}
	if p, ok := s.db.Store.(partitioner); ok {
		all = append(all, jobs.Job{Name: "create partitions", Every: time.Hour, Do: func(ctx context.Context) error {
			return p.EnsurePartitions(ctx, time.Now())
		}})
	}
	return all
}

// collectGarbage deletes unreferenced files. Several servers of one database may call it
// at once, because a collection holds a lease of its organisation.
func (s *server) collectGarbage(ctx context.Context) error {
	return s.maintenance().Collect(ctx, maintenance.CollectOptions{Grace: s.c.GCGrace}, func(r maintenance.Report) {
		if r.Done && !r.Busy && r.Collected.Deleted > 0 {
			s.log.Info("deleted unreferenced files", "org", r.Org, "objects", r.Collected.Deleted, "bytes", r.Collected.Freed)
		}
	})
}
