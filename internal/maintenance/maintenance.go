// Package maintenance answers: how is the storage kept in order?
//
// A Service clears the storage of what nothing names any more, and checks that
// all that is named is there and whole, for one organisation after the other.
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

// Config is what a Service needs. Now defaults to the real clock.
type Config struct {
	Store   store.Collections
	Library *files.Library
	IDs     *stint.IDs
	Now     func() time.Time
}

// Service is safe for concurrent use.
type Service struct{ c Config }

// New makes a service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{c}
}

// Report tells of one organisation: what was done so far or, when Done is set,
// in all. One of Busy, Collected and Checked is set.
type Report struct {
	Org       string     `json:"org"`
	Done      bool       `json:"done"`
	Busy      bool       `json:"busy,omitempty"` // somebody else looks after it just now; nothing was done
	Collected *Collected `json:"collected,omitempty"`
	Checked   *Checked   `json:"checked,omitempty"`
}

// Collected tells what a collection did.
type Collected struct {
	Epoch     int64 `json:"epoch"`
	Trees     int64 `json:"trees"`     // that something names
	Pages     int64 `json:"pages"`     // of them, each counted once
	Packs     int64 `json:"packs"`     // that hold something of them
	Marked    int64 `json:"condemned"` // objects, for the next collection to delete
	Unmarked  int64 `json:"pardoned"`  // that came to be named again
	Deleted   int64 `json:"deleted"`   // objects
	Compacted int64 `json:"compacted"` // packs that were stored anew
	Damaged   int64 `json:"damaged"`   // packs that should have been, but are damaged
	Freed     int64 `json:"freedBytes"`
}

// Checked tells what a check found.
type Checked struct {
	Trees    int64    `json:"trees"` // that are named, equal ones once
	Pages    int64    `json:"pages"`
	Packs    int64    `json:"packs"`
	Segments int64    `json:"segments"` // that were read back
	Bytes    int64    `json:"bytes"`    // of them
	Orphans  int64    `json:"orphans"`  // objects that nothing names
	Damaged  int64    `json:"damaged"`  // objects
	Repaired int64    `json:"repaired"` // of them
	Damages  []Damage `json:"damages,omitempty"`
}

// Damage is an object that is not what it should be.
type Damage struct {
	Key      string `json:"key"`
	Problem  string `json:"what"`
	Repaired bool   `json:"repaired"`
	Uses     int64  `json:"uses"` // files and folders that lack something
	Used     []Use  `json:"used,omitempty"`
}

// Use is where a damage shows.
type Use struct {
	Name      string `json:"name"` // of the version or checkpoint
	Path      string `json:"path,omitempty"`
	Following bool   `json:"andOn,omitempty"` // what follows the path lacks something, too
}

// CollectOptions says how to collect.
type CollectOptions struct {
	// Grace is how long what nothing names stays. With 0 it goes at once, which
	// takes several rounds: then nothing else should store files.
	Grace  time.Duration
	DryRun bool
}

// roundsAtOnce bounds the rounds of a collection without grace: condemn, delete
// and store anew, delete what that replaced.
const roundsAtOnce = 4

// Collect clears the storage of every organisation. tell is called with what
// was done so far and, for each organisation, in the end. Where one fails the
// others get their turn all the same; the error names each that did.
func (s *Service) Collect(ctx context.Context, o CollectOptions, tell func(Report)) error {
	return s.alone(ctx, tell, func(ctx context.Context, org string) error {
		total := Collected{}
		for range roundsAtOnce {
			round, err := s.c.Library.Collect(ctx, org, s.c.Store, files.CollectOptions{
				Grace: o.Grace, Now: s.c.Now, DryRun: o.DryRun,
				Progress: func(c files.CollectResult) { tell(Report{Org: org, Collected: total.and(Collected(c))}) },
			})
			if err != nil {
				return fmt.Errorf("collect what nothing names: %w", err)
			}
			total = *total.and(Collected(round))
			if o.Grace > 0 || o.DryRun || round.Marked == 0 {
				break
			}
		}
		tell(Report{Org: org, Done: true, Collected: &total})
		return nil
	})
}

// and is what this and a later round did together.
func (c Collected) and(later Collected) *Collected {
	later.Unmarked += c.Unmarked
	later.Deleted += c.Deleted
	later.Compacted += c.Compacted
	later.Freed += c.Freed
	return &later
}

// CheckOptions says how to check.
type CheckOptions struct {
	Quick  bool `json:"quick"`  // look at what there is, do not read every byte
	Repair bool `json:"repair"` // restore what can be
}

// Check checks the storage of every organisation. tell is called, and errors
// are, as in Collect.
func (s *Service) Check(ctx context.Context, o CheckOptions, tell func(Report)) error {
	return s.alone(ctx, tell, func(ctx context.Context, org string) error {
		done, err := s.c.Library.Check(ctx, org, s.named(ctx, org), files.CheckOptions{
			Read: !o.Quick, Repair: o.Repair,
			Progress: func(c files.CheckResult) { tell(Report{Org: org, Checked: checked(c)}) },
		})
		if err != nil {
			return fmt.Errorf("check what is kept: %w", err)
		}
		tell(Report{Org: org, Done: true, Checked: checked(done)})
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

func checked(c files.CheckResult) *Checked {
	out := &Checked{
		Trees: c.Trees, Pages: c.Pages, Packs: c.Packs, Segments: c.Segments, Bytes: c.Bytes,
		Orphans: c.Orphans, Damaged: c.Damaged, Repaired: c.Repaired,
	}
	for _, d := range c.Damages {
		damage := Damage{Key: d.Key, Problem: d.Problem, Repaired: d.Repaired, Uses: d.Uses}
		for _, u := range d.Used {
			damage.Used = append(damage.Used, Use(u))
		}
		out.Damages = append(out.Damages, damage)
	}
	return out
}

// SyncIndexes lets the index of chunks know what other servers stored and deleted.
func (s *Service) SyncIndexes(ctx context.Context) error {
	return s.each(ctx, func(org string) error { return s.c.Library.SyncIndex(ctx, org) })
}

// turn is how long one who looks after an organisation has it to itself unless
// it says that it goes on, which it does three times as often.
const turn = 3 * time.Minute

// alone calls f for each organisation, while nobody else collects or repairs
// there.
func (s *Service) alone(ctx context.Context, tell func(Report), f func(ctx context.Context, org string) error) error {
	holder := s.c.IDs.New("")
	return s.each(ctx, func(org string) error {
		mine, err := s.c.Store.LeaseCollection(ctx, org, holder, turn)
		switch {
		case err != nil:
			return fmt.Errorf("take the turn to look after it: %w", err)
		case !mine:
			tell(Report{Org: org, Done: true, Busy: true})
			return nil
		}
		return s.hold(ctx, org, holder, f)
	})
}

// each calls f for each organisation, also after it failed for another, until
// ctx ends.
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

var errTurnLost = errors.New("somebody else looks after it by now")

// hold calls f and keeps the turn meanwhile; f's context ends when it is lost.
func (s *Service) hold(ctx context.Context, org, holder string, f func(ctx context.Context, org string) error) error {
	working, stop := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		tick := time.NewTicker(turn / 3)
		defer tick.Stop()
		for {
			select {
			case <-working.Done():
				return
			case <-tick.C:
			}
			if mine, err := s.c.Store.LeaseCollection(working, org, holder, turn); err == nil && !mine {
				stop(errTurnLost)
			}
		}
	})
	err := f(working, org)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(working)
	}
	stop(nil)
	keeping.Wait()
	_, giveBack := s.c.Store.LeaseCollection(context.WithoutCancel(ctx), org, holder, 0)
	return errors.Join(err, giveBack)
}
