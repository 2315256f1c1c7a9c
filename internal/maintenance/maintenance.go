// Package maintenance runs garbage collection and checks of the storage.
//
// A Service deletes unreferenced objects, or checks that all referenced objects exist
// and are intact. It processes one organisation after the other.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// Config contains the dependencies of a Service. The default of Now is time.Now; all
// other members are required.
type Config struct {
	Store   store.Collections
	Library *files.Library
	IDs     *stint.IDs
	Now     func() time.Time
}

// Service collects garbage and checks storage. It is safe for concurrent use.
type Service struct{ c Config }

// New returns a service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{c}
}

// Report is the progress for one organisation. If Done is true, it is the final result.
// Exactly one of Busy, Collected, and Checked is set.
type Report struct {
	Org       string               `json:"org"`
	Done      bool                 `json:"done"`
	Busy      bool                 `json:"busy,omitempty"` // another process collects or checks the organisation; nothing was done
	Collected *files.CollectResult `json:"collected,omitempty"`
	Checked   *files.CheckResult   `json:"checked,omitempty"`
}

// CollectOptions configures Collect.
type CollectOptions struct {
	// Grace is the grace period, as in files.CollectOptions. If it is 0,
	// Collect marks and deletes objects immediately, in several rounds. In this case
	// no other process should store files at the same time.
	Grace  time.Duration
	DryRun bool // only report, without changes
}

// maxRounds is the maximum number of rounds of a collection without grace period. Two
// rounds are usual: one marks objects and compacts packs, and one deletes the marked
// objects, including the packs that were replaced by compaction. A further round
// follows if a round marks objects.
const maxRounds = 4

// Collect collects the garbage of every organisation. It calls report with the progress
// and the result for each organisation. If the collection fails for an organisation,
// Collect continues with the next one. It returns all errors, joined.
func (s *Service) Collect(ctx context.Context, o CollectOptions, report func(Report)) error {
	return s.eachLeased(ctx, report, func(ctx context.Context, org string) error {
		var total files.CollectResult
		for range maxRounds {
			round, err := s.c.Library.Collect(ctx, org, s.c.Store, files.CollectOptions{
				Grace: o.Grace, Now: s.c.Now, DryRun: o.DryRun,
				Progress: func(c files.CollectResult) { report(Report{Org: org, Collected: add(total, c)}) },
			})
			if err != nil {
				return fmt.Errorf("collect garbage: %w", err)
			}
			total = *add(total, round)
			if o.Grace > 0 || o.DryRun || round.Marked == 0 {
				break
			}
		}
		report(Report{Org: org, Done: true, Collected: &total})
		return nil
	})
}

// add returns the combined result of the earlier rounds (sum) and the last round.
// The members Unmarked, Deleted, Compacted, and Freed are added. All other members
// are those of the last round, which describe its current findings.
func add(sum, round files.CollectResult) *files.CollectResult {
	round.Unmarked += sum.Unmarked
	round.Deleted += sum.Deleted
	round.Compacted += sum.Compacted
	round.Freed += sum.Freed
	return &round
}

// CheckOptions configures Check.
type CheckOptions struct {
	Quick  bool `json:"quick"`  // do not read the content of objects
	Repair bool `json:"repair"` // repair damaged objects if possible
}

// Check checks the storage of every organisation. It reports progress and returns errors
// like Collect.
func (s *Service) Check(ctx context.Context, o CheckOptions, report func(Report)) error {
	return s.eachLeased(ctx, report, func(ctx context.Context, org string) error {
		done, err := s.c.Library.Check(ctx, org, s.named(ctx, org), files.CheckOptions{
			Read: !o.Quick, Repair: o.Repair,
			Progress: func(c files.CheckResult) { report(Report{Org: org, Checked: &c}) },
		})
		if err != nil {
			return fmt.Errorf("check the storage: %w", err)
		}
		report(Report{Org: org, Done: true, Checked: &done})
		return nil
	})
}

func (s *Service) named(ctx context.Context, org string) iter.Seq2[files.NamedTree, error] {
	return func(yield func(files.NamedTree, error) bool) {
		for n, err := range s.c.Store.NamedSnapshots(ctx, org) {
			if !yield(files.NamedTree(n), err) {
				return
			}
		}
	}
}

// SyncIndexes updates the local chunk index of every organisation with the changes that
// other servers made.
func (s *Service) SyncIndexes(ctx context.Context) error {
	return s.each(ctx, func(org string) error { return s.c.Library.SyncIndex(ctx, org) })
}

// leaseTime is the duration of a collection lease, the right of one process to
// collect or check an organisation. The lease is renewed at intervals of a third of
// leaseTime.
const leaseTime = 3 * time.Minute

// eachLeased calls f for each organisation while it holds the organisation's
// collection lease, so that no other process collects or checks the same
// organisation. If another process holds this lease, eachLeased reports Busy
// instead.
func (s *Service) eachLeased(ctx context.Context, report func(Report), f func(ctx context.Context, org string) error) error {
	holder := s.c.IDs.New("")
	return s.each(ctx, func(org string) error {
		held, err := s.c.Store.LeaseCollection(ctx, org, holder, leaseTime)
		switch {
		case err != nil:
			return fmt.Errorf("acquire the lease: %w", err)
		case !held:
			report(Report{Org: org, Done: true, Busy: true})
			return nil
		}
		return s.withLease(ctx, org, holder, f)
	})
}

// each calls f for each organisation until ctx ends. It continues after an error of f
// and returns all errors, joined.
func (s *Service) each(ctx context.Context, f func(org string) error) error {
	orgs, err := s.c.Store.Orgs(ctx)
	if err != nil {
		return fmt.Errorf("list organisations: %w", err)
	}
	var failed []error
	for _, org := range orgs {
		if ctx.Err() != nil {
			return errors.Join(append(failed, context.Cause(ctx))...)
		}
		if err := f(org); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", org, err))
		}
	}
	return errors.Join(failed...)
}

var errLeaseLost = errors.New("another process has taken the lease")

// withLease calls f, renews the collection lease until f returns, and then releases
// the lease. It cancels f's context if the lease is lost.
func (s *Service) withLease(ctx context.Context, org, holder string, f func(ctx context.Context, org string) error) error {
	leased, stop := context.WithCancelCause(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		tick := time.NewTicker(leaseTime / 3)
		defer tick.Stop()
		for {
			select {
			case <-leased.Done():
				return
			case <-tick.C:
			}
			if held, err := s.c.Store.LeaseCollection(leased, org, holder, leaseTime); err == nil && !held {
				stop(errLeaseLost)
			}
		}
	})
	err := f(leased, org)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(leased)
	}
	stop(nil)
	renewal.Wait()
	_, releaseErr := s.c.Store.LeaseCollection(context.WithoutCancel(ctx), org, holder, 0)
	return errors.Join(err, releaseErr)
}
