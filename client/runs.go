package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint"
)

// Runs starts, follows and cancels executions of agents.
type Runs struct{ c *Client }

// CreateOptions says how a run is to be created; nil means no wishes.
type CreateOptions struct {
	// IdempotencyKey marks the request: another one with the same key and body
	// gives the same run. A fresh key when empty.
	IdempotencyKey string
	// WaitSeconds asks the server to answer when the run has ended, or after
	// so many seconds, 1 to 60; 0 answers at once.
	WaitSeconds int
}

// Create starts a run. It is safe against failures of the network: what is
// sent again cannot start a second run.
func (r *Runs) Create(ctx context.Context, n stint.NewRun, o *CreateOptions) (*stint.Run, error) {
	post := call{method: http.MethodPost, path: []string{"runs"}, body: n, key: newKey()}
	if o != nil && o.IdempotencyKey != "" {
		post.key = o.IdempotencyKey
	}
	if o != nil && o.WaitSeconds > 0 {
		post.header = http.Header{"Prefer": {"wait=" + strconv.Itoa(o.WaitSeconds)}}
	}
	run := new(stint.Run)
	if err := r.c.do(ctx, post, run); err != nil {
		return nil, err
	}
	return run, nil
}

// Get reads one run.
func (r *Runs) Get(ctx context.Context, id string) (*stint.Run, error) {
	return get[*stint.Run](ctx, r.c, "runs", id)
}

// RunFilter narrows a list of runs; its zero value does not.
type RunFilter struct {
	Status       stint.Status
	AgentID      string
	SessionID    string
	Since, Until *stint.Time // of createdAt, inclusive
	Metadata     map[string]string
	PageSize     int // items per request, 1 to 100; 0 is 100
}

// List walks the runs, newest first. An error ends the walk.
func (r *Runs) List(ctx context.Context, f RunFilter) iter.Seq2[stint.RunSummary, error] {
	q := url.Values{}
	set(q, "status", string(f.Status))
	set(q, "agentId", f.AgentID)
	set(q, "sessionId", f.SessionID)
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	for key, value := range f.Metadata {
		q.Set("metadata["+key+"]", value)
	}
	return list[stint.RunSummary](ctx, r.c, q, f.PageSize, "runs")
}

// Cancel ends a pending or running run. A run that has ended already is an
// *Error with the code invalid_state.
func (r *Runs) Cancel(ctx context.Context, id string) (*stint.Run, error) {
	run := new(stint.Run)
	post := call{method: http.MethodPost, path: []string{"runs", id, "cancel"}, key: newKey()}
	if err := r.c.do(ctx, post, run); err != nil {
		return nil, err
	}
	return run, nil
}

// Wait returns the run when it has ended, however it ended. It follows the
// run's stream, so it returns at once when the run does.
func (r *Runs) Wait(ctx context.Context, id string) (*stint.Run, error) {
	run, err := r.Get(ctx, id)
	if err != nil || run.Status.Final() {
		return run, err
	}
	for _, err := range r.Events(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
	}
	return r.Get(ctx, id)
}

// Await reads one run when it has ended, or as it stands after so many seconds,
// 1 to 60. Unlike Wait it is a single request.
func (r *Runs) Await(ctx context.Context, id string, seconds int) (*stint.Run, error) {
	run := new(stint.Run)
	header := http.Header{"Prefer": {"wait=" + strconv.Itoa(seconds)}}
	if err := r.c.do(ctx, call{method: http.MethodGet, path: []string{"runs", id}, header: header}, run); err != nil {
		return nil, err
	}
	return run, nil
}

// LogFilter narrows the log of a run; its zero value reads all, oldest first.
type LogFilter struct {
	Type         stint.LogType // all when empty
	Since, Until *stint.Time   // inclusive
	Descending   bool
	PageSize     int // items per request, 1 to 100; 0 is 100
}

// Logs walks the unified log of a run. An error ends the walk.
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

// Metrics reads what the run has used so far.
func (r *Runs) Metrics(ctx context.Context, id string) (*stint.Metrics, error) {
	return get[*stint.Metrics](ctx, r.c, "runs", id, "metrics")
}

func setTime(q url.Values, name string, t *stint.Time) {
	if t != nil {
		q.Set(name, t.String())
	}
}
