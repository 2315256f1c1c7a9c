package client

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"time"

	"github.com/stint-dev/stint"
)

// LogFilter selects log entries. The zero value selects all, oldest first.
type LogFilter struct {
	Type         stint.LogType // all when empty
	Since, Until *stint.Time   // inclusive
	Descending   bool
	PageSize     int // items per request, 1 to 100; 0 is 100
}

// Logs iterates over the unified log of a run and ends after an error.
func (r *Runs) Logs(ctx context.Context, id string, f LogFilter) iter.Seq2[stint.LogEntry, error] {
	q := url.Values{}
	set(q, "type", string(f.Type))
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	if f.Descending {
		q.Set("order", "desc")
	}
	return list[stint.LogEntry](ctx, r.c, q, f.PageSize, "runs", id, "logs")
}

// FollowLogs iterates over the unified log of a run, oldest first, and waits for further
// entries until the run has ended. It asks for them about once per second, from the
// position after the last one, and ends after an error. It ignores Until, Descending, and
// PageSize.
func (r *Runs) FollowLogs(ctx context.Context, id string, f LogFilter) iter.Seq2[stint.LogEntry, error] {
	q := url.Values{"follow": {"true"}}
	set(q, "type", string(f.Type))
	setTime(q, "since", f.Since)
	return func(yield func(stint.LogEntry, error) bool) {
		o := PageOptions{Limit: stint.MaxLimit}
		for ending := (logEnding{}); ; {
			p, err := page[stint.LogEntry](ctx, r.c, q, &o, "runs", id, "logs")
			if err == nil && p.Pagination.NextCursor == nil {
				err = errors.New("the server cannot follow logs; update it")
			}
			for i := 0; err == nil && i < len(p.Data); i++ {
				if !yield(p.Data[i], nil) {
					return
				}
			}
			if err == nil && !p.Pagination.HasMore {
				if ending.complete {
					return
				}
				err = ending.await(ctx, r, id)
			}
			if err != nil {
				yield(stint.LogEntry{}, err)
				return
			}
			o.Cursor = *p.Pagination.NextCursor
		}
	}
}

// lateRounds is how often a log is read again after a run was cancelled, in seconds. The
// files of such a run are stored, and logged, after its end.
const lateRounds = 5

// logEnding waits for the end of a log that is followed.
type logEnding struct {
	late     int
	complete bool // the entries that are stored now are the last
}

// await waits for a second, or until the run has ended.
func (e *logEnding) await(ctx context.Context, r *Runs, id string) error {
	run, err := r.Await(ctx, id, 1)
	if err != nil || !run.Status.Final() {
		return err
	}
	storing := run.Status == stint.Cancelled && run.StartedAt != nil && run.CheckpointID == nil
	if e.late++; !storing || e.late > lateRounds {
		e.complete = true
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Second):
		return nil
	}
}
