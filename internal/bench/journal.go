package bench

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/internal/store"
)

const (
	journalWriters = 64
	journalBytes   = 256
	journalPack    = 16
)

// benchJournal lets 64 workers append to a run each, an event at a time and
// packed, beside 64 writers of one file.
func (l *lab) benchJournal(ctx context.Context) error {
	return l.inWorld(ctx, func(w *world, dir string) error {
		at, err := w.running(ctx, journalWriters)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			pack int
			goal float64
		}{{1, 0.3}, {journalPack, 1.5}} {
			turns := make([]turn, rounds)
			for i := range turns {
				if turns[i], err = l.journal(ctx, w, dir, at, c.pack); err != nil {
					return err
				}
			}
			m := middle(turns)
			row := Row{What: fmt.Sprintf("durable events, %d writers, %d an append", journalWriters, c.pack), Measured: Measure{Rate: m.rate}}
			row = row.compare("file with group fdatasync", Measure{Rate: m.anchor}, m.rate, m.anchor)
			row.Goals = []Goal{atLeast("", row.Ratio, c.goal, "×")}
			l.add(row)
		}
		return nil
	})
}

// journal measures both for a part of the time.
func (l *lab) journal(ctx context.Context, w *world, dir string, at []store.Position, pack int) (turn, error) {
	file, err := groupAppends(ctx, dir, journalWriters, journalBytes, l.a.Anchor)
	if err != nil {
		return turn{}, err
	}
	n, elapsed, err := closedLoop(ctx, journalWriters, l.a.Each/2, func(_ context.Context, i int) error {
		return w.appendTo(ctx, &at[i], pack, journalBytes)
	})
	return turn{perSecond(n*pack, elapsed), file}, err
}
