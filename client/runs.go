package client

import (
	"context"
	"crypto/rand"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint"
)

// Runs starts, follows, and cancels runs.
type Runs struct{ c *Client }

// CreateOptions configures Create; nil is the default.
type CreateOptions struct {
	// IdempotencyKey identifies the request: a repetition with the same key and
	// body returns the same run. Empty means a random key.
	IdempotencyKey string
	// WaitSeconds is how long the server waits for the end of the run before it
	// responds, 1 to 60; 0 means not at all.
	WaitSeconds int
}

// Create starts a run. After a network failure it repeats the request without starting
// a second run.
func (r *Runs) Create(ctx context.Context, n stint.NewRun, o *CreateOptions) (*stint.Run, error) {
	post := call{method: http.MethodPost, path: []string{"runs"}, body: n, key: rand.Text()}
	if o != nil && o.IdempotencyKey != "" {
		post.key = o.IdempotencyKey
	}
	if o != nil && o.WaitSeconds > 0 {
		post.header = http.Header{"Prefer": {"wait=" + strconv.Itoa(o.WaitSeconds)}}
	}
	return fetch[stint.Run](ctx, r.c, post)
}

// Get returns a run.
func (r *Runs) Get(ctx context.Context, id string) (*stint.Run, error) {
	return get[stint.Run](ctx, r.c, "runs", id)
}

// RunFilter selects runs. The zero value selects all.
type RunFilter struct {
	Statuses     []stint.Status // any of them; nil for all
	AgentID      string
	SessionID    string
	CreatedBy    string      // only runs of this creator, as in stint.Run; "me" is the caller
	Since, Until *stint.Time // limits of createdAt, inclusive; nil for none
	Metadata     map[string]string
	IDPrefix     string // only runs with IDs that begin with it
	PageSize     int    // items per request, 1 to 100; 0 is 100
}

// List iterates over the runs, newest first, and ends after an error.
func (r *Runs) List(ctx context.Context, f RunFilter) iter.Seq2[stint.RunSummary, error] {
	q := url.Values{}
	for _, s := range f.Statuses {
		q.Add("status", string(s))
	}
	set(q, "idPrefix", f.IDPrefix)
	set(q, "agentId", f.AgentID)
	set(q, "sessionId", f.SessionID)
	set(q, "createdBy", f.CreatedBy)
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	for key, value := range f.Metadata {
		q.Set("metadata["+key+"]", value)
	}
	return list[stint.RunSummary](ctx, r.c, q, f.PageSize, "runs")
}

// ChangeMetadata sets labels of a run, also of an ended one, and returns the run. A nil
// value removes a label; labels that change does not contain are kept.
func (r *Runs) ChangeMetadata(ctx context.Context, id string, change map[string]*string) (*stint.Run, error) {
	body := struct {
		Metadata map[string]*string `json:"metadata,omitempty"`
	}{change}
	return fetch[stint.Run](ctx, r.c, call{method: http.MethodPatch, path: []string{"runs", id}, body: body})
}

// Cancel ends a pending or running run. If the run has ended already, Cancel returns an
// *Error with the code invalid_state.
func (r *Runs) Cancel(ctx context.Context, id string) (*stint.Run, error) {
	return fetch[stint.Run](ctx, r.c, call{method: http.MethodPost, path: []string{"runs", id, "cancel"}, key: rand.Text()})
}

// Wait waits for the end of a run and returns the run, whatever its status. It follows
// the run's stream.
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

// Await waits up to the given number of seconds, 1 to 60, for the end of a run and
// returns the run, which may not have ended. Unlike Wait, it sends a single request.
func (r *Runs) Await(ctx context.Context, id string, seconds int) (*stint.Run, error) {
	header := http.Header{"Prefer": {"wait=" + strconv.Itoa(seconds)}}
	return fetch[stint.Run](ctx, r.c, call{method: http.MethodGet, path: []string{"runs", id}, header: header})
}

// Metrics returns the resource usage of a run so far.
func (r *Runs) Metrics(ctx context.Context, id string) (*stint.Metrics, error) {
	return get[stint.Metrics](ctx, r.c, "runs", id, "metrics")
}

// Activity returns the open runs of the organisation, at most limit. If limit is 0, it
// returns at most stint.DefaultActivityLimit runs.
func (r *Runs) Activity(ctx context.Context, limit int) (*stint.Activity, error) {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return fetch[stint.Activity](ctx, r.c, call{method: http.MethodGet, path: []string{"activity"}, query: q})
}

func setTime(q url.Values, name string, t *stint.Time) {
	if t != nil {
		q.Set(name, t.String())
	}
}
