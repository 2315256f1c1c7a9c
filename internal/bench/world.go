package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/store"
)

// world is a service in this process, in which the measurement plays the
// worker.
type world struct {
	*app.Parts
	caller auth.Caller
	token  string
	agent  string
	worker string
	// journal is what the feed reads.
	journal *unstored
}

// openWorld opens an installation with an organisation, an agent and a worker.
func openWorld(ctx context.Context, dir, database string) (*world, error) {
	c := config.Default()
	c.Data, c.Database = dir, database
	c.LeaseTTL = time.Hour // nobody renews it here
	w := &world{agent: "worked"}
	parts, err := app.OpenParts(ctx, c, func(j store.Journal) store.Journal {
		w.journal = newUnstored(j)
		return w.journal
	})
	if err != nil {
		return nil, err
	}
	w.Parts = parts
	if err := w.furnish(ctx); err != nil {
		return nil, errors.Join(err, parts.Close())
	}
	return w, nil
}

func (w *world) furnish(ctx context.Context) error {
	token, err := w.Auth.Login(ctx, "bench", "bench", "bench", 1)
	if err != nil {
		return err
	}
	w.token = token.Secret
	if w.caller, err = w.Auth.Authenticate(ctx, w.token); err != nil {
		return err
	}
	a := agents.New(agents.Config{Store: w.Store, IDs: w.IDs})
	if _, err := a.Create(ctx, w.caller, []byte(agentDefinition(w.agent))); err != nil {
		return err
	}
	w.worker = w.IDs.New(stint.PrefixWorker)
	_, err = w.Dispatch.Register(ctx, store.Worker{ID: w.worker, Host: "bench", Capacity: 1 << 20, CreatedAt: stint.TimeOf(time.Now())})
	return err
}

func (w *world) create(ctx context.Context) (stint.Run, error) {
	return w.Runs.Create(ctx, w.caller, stint.NewRun{Agent: w.agent, Prompt: "true"}, runs.CreateOptions{})
}

// claimBatch is how many runs the worker takes at once.
const claimBatch = 500

// running creates n runs and claims them; the positions are where the worker
// may append.
func (w *world) running(ctx context.Context, n int) ([]store.Position, error) {
	g, creating := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for range n {
		g.Go(func() error {
			_, err := w.create(creating)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	positions := make([]store.Position, 0, n)
	for len(positions) < n {
		assigned, err := w.Dispatch.Next(ctx, w.worker, min(claimBatch, n-len(positions)))
		if err != nil {
			return nil, err
		}
		for i := range assigned {
			if assigned[i].Err != nil {
				return nil, assigned[i].Err
			}
			positions = append(positions, assigned[i].Position)
		}
	}
	return positions, nil
}

// output is an event whose data has the size in bytes. It carries the moment
// of its making behind a tilde, which occurs nowhere else.
func output(size int) stint.Event {
	now := time.Now()
	data := fmt.Appendf(make([]byte, 0, size), `{"content":"~%019d;`, now.UnixNano())
	for len(data) < size-len(outputEnd) {
		data = append(data, 'x')
	}
	return stint.Event{Type: stint.EventOutput, At: stint.TimeOf(now), Data: append(data, outputEnd...)}
}

const outputEnd = `","stream":"stdout"}`

// appendTo adds so many events to a run in one step and moves the position.
func (w *world) appendTo(ctx context.Context, at *store.Position, events, size int) error {
	b := store.Batch{Token: fmt.Sprintf("%s-%d", at.RunID, at.After), Events: make([]stint.Event, events)}
	for i := range b.Events {
		b.Events[i] = output(size)
	}
	head, err := w.Dispatch.Append(ctx, *at, b)
	if err != nil {
		return err
	}
	at.After = head
	return nil
}
