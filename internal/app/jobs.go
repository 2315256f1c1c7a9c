package app

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/store"
)

func (s *server) trees() *artifacts.Service {
	return artifacts.New(artifacts.Config{Store: s.db, Library: s.library, Quota: s.quota, IDs: s.ids, Now: time.Now})
}

// retention is the rule by which versions go.
func (s *server) retention() store.Retention {
	r := store.Retention{Last: s.c.KeepVersions}
	if s.c.KeepFor > 0 {
		r.Since = stint.TimeOf(time.Now().Add(-s.c.KeepFor))
	}
	return r
}

// partitioner is a store that wants its partitions made ahead.
type partitioner interface {
	EnsurePartitions(ctx context.Context, now time.Time) error
}

// chores lists what this server keeps in order.
func (s *server) chores() []jobs.Job {
	all := []jobs.Job{
		{Name: "end the runs of lost workers", Every: s.c.LeaseTTL / 3, Do: func(ctx context.Context) error {
			_, err := s.dispatch.Reap(ctx)
			return err
		}},
		{Name: "forget answers to old requests", Every: 10 * time.Minute, Do: func(ctx context.Context) error {
			_, err := s.db.PurgeRequests(ctx, stint.TimeOf(time.Now()))
			return err
		}},
		{Name: "record when tokens were used", Every: 10 * time.Second, Do: s.auth.Flush},
		{Name: "put popular archives whole", Every: 5 * time.Second, Do: s.library.StorePopularArchives},
	}
	all = append(all, jobs.Job{Name: "remove versions that rules let go", Every: 10 * time.Minute, Do: func(ctx context.Context) error {
		_, err := s.db.PruneVersions(ctx, s.retention())
		return err
	}})
	all = append(all, s.learning())
	if s.c.GCEvery > 0 {
		all = append(all, s.collecting())
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
		all = append(all, jobs.Job{Name: "make partitions ahead", Every: time.Hour, Do: func(ctx context.Context) error {
			return p.EnsurePartitions(ctx, time.Now())
		}})
	}
	return all
}
