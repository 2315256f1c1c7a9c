package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/strictjson"
)

func (a *api) createRun(p *post) (*response, error) {
	var n stint.NewRun
	if err := strictjson.Decode("body", p.body, &n, strictjson.Options{Unsupported: unsupportedMember}); err != nil {
		return nil, err
	}
	options := runs.CreateOptions{Key: p.key, Claimed: p.claimed}
	if p.key != "" {
		options.Answer = func(r stint.Run) (*store.Answer, error) { return a.seal(p, createdRun(r)) }
	}
	run, err := a.c.Runs.Create(p.r.Context(), p.caller, n, options)
	if err != nil {
		return nil, err
	}
	p.stored = p.key != ""
	wait := preferredWait(p.r.Header)
	if wait == 0 {
		return createdRun(run), nil
	}
	later := a.waitForRun(p.r.Context(), p.caller, run, wait)
	if a.c.Runs.AddQueue(p.r.Context(), p.caller, &later) == nil {
		run = later
	}
	p.stored = false // endRequest replaces the stored response by the one below
	resp := createdRun(run)
	resp.set("Preference-Applied", "wait")
	return resp, nil
}

// waitForRun waits until the run has ended, for at most the duration wait, and returns
// its current state. If the wait fails, it returns run.
func (a *api) waitForRun(ctx context.Context, c auth.Caller, run stint.Run, wait time.Duration) stint.Run {
	ctx, cancel := a.untilStop(ctx)
	defer cancel()
	if later, err := a.c.Runs.Wait(ctx, c, run.ID, wait); err == nil {
		return later
	}
	return run
}

// createdRun returns the response to the creation of a run. The response omits the
// run's volumes.
func createdRun(r stint.Run) *response {
	r.Volumes = nil
	resp := jsonResponse(http.StatusAccepted, withMetadata(r))
	resp.set("Location", "/v1/runs/"+r.ID)
	return resp
}

// withMetadata returns the run with a non-nil Metadata, which is {} in JSON instead of
// null.
func withMetadata(r stint.Run) stint.Run {
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	return r
}

// withDetails returns the run with non-nil Metadata and Volumes, as in the response
// for a single run.
func withDetails(r stint.Run) stint.Run {
	if r.Volumes == nil {
		r.Volumes = map[string]string{}
	}
	return withMetadata(r)
}

// preferredWait returns the duration in the header "Prefer: wait=N" (N in seconds), at
// most stint.MaxWait. It returns 0 without a valid header.
func preferredWait(h http.Header) time.Duration {
	for preference := range parts(h["Prefer"]) {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(preference, "=")
		if n, err := strconv.Atoi(strings.Trim(value, `" `)); err == nil && n > 0 && strings.EqualFold(strings.TrimSpace(name), "wait") {
			return time.Duration(min(n, int(stint.MaxWait/time.Second))) * time.Second
		}
	}
	return 0
}

// untilStop returns a context that also ends when the server stops.
func (a *api) untilStop(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(a.c.Stop, cancel)
	return ctx, func() { stop(); cancel() }
}

func (a *api) getRun(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	id := r.PathValue("id")
	if cached := a.cachedRun(r, *c, id); cached != nil {
		cached.write(w, r)
		return nil
	}
	run, err := a.c.Runs.Get(r.Context(), *c, id)
	if err != nil {
		return err
	}
	if wait := preferredWait(r.Header); wait > 0 {
		run = a.waitForRun(r.Context(), *c, run, wait)
		w.Header().Set("Preference-Applied", "wait")
	}
	if err := a.c.Runs.AddQueue(r.Context(), *c, &run); err != nil {
		return err
	}
	encoded := encode(withDetails(run))
	if isImmutable(&run) {
		a.cacheFinalRun(c.OrgID+id, encoded, run.Metadata).write(w, r)
		return nil
	}
	(&response{status: http.StatusOK, body: encoded}).write(w)
	return nil
}

// patchRun changes the metadata of a run, by the rules of a JSON merge patch: a member
// that is null is removed, and members that the body does not have are kept.
func (a *api) patchRun(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	if err := a.checkRun(r, *c, r.PathValue("id")); err != nil {
		return err
	}
	raw, err := readJSON(w, r)
	if err != nil {
		return err
	}
	change, err := decodeLabels(raw)
	if err != nil {
		return err
	}
	run, err := a.c.Runs.ChangeMetadata(r.Context(), *c, r.PathValue("id"), change)
	if err != nil {
		return err
	}
	if err := a.c.Runs.AddQueue(r.Context(), *c, &run); err != nil {
		return err
	}
	jsonResponse(http.StatusOK, withDetails(run)).write(w)
	return nil
}

// decodeLabels returns the member 'metadata' of a body, with nil for null. It refuses
// other members.
func decodeLabels(raw []byte) (map[string]*string, error) {
	var in struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := strictjson.Decode("body", raw, &in, strictjson.Options{RefuseUnknown: true}); err != nil {
		return nil, err
	}
	if in.Metadata == nil {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(in.Metadata, &members) != nil || members == nil {
		return nil, stint.InvalidParam("metadata", "'metadata' must be an object with strings as members, and null for members to remove.")
	}
	var errs []*stint.Error
	change := map[string]*string{}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		var value *string
		if json.Unmarshal(members[key], &value) != nil {
			errs = append(errs, stint.InvalidParam("metadata."+key, "A member of 'metadata' must be a string, or null to remove it."))
		}
		change[key] = value
	}
	return change, stint.JoinErrors(errs...)
}

// isImmutable reports whether the run cannot change any more, except for its metadata. An ended run that was
// started but has no checkpoint can change: if it was cancelled or reaped, its worker
// can still add a checkpoint.
func isImmutable(r *stint.Run) bool {
	return r.Status.Final() && (r.StartedAt == nil || r.CheckpointID != nil)
}

// checkRun returns an error if the caller's organisation does not have the run.
func (a *api) checkRun(r *http.Request, c auth.Caller, id string) error {
	if _, ok := a.finalRuns.Get(c.OrgID + id); ok {
		return nil
	}
	_, err := a.c.Runs.Get(r.Context(), c, id)
	return err
}

func (a *api) listRuns(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	f := store.RunFilter{
		Statuses: q.statuses(),
		Since:    q.time("since"), Until: q.time("until"),
	}
	f.AgentID = q.id("agentId", stint.PrefixAgent)
	f.SessionID = q.id("sessionId", stint.PrefixSession)
	if f.CreatedBy, _ = q.text("createdBy"); f.CreatedBy == "me" {
		f.CreatedBy = c.Name()
	}
	for name := range q.values {
		if key, ok := strings.CutPrefix(name, "metadata["); ok && strings.HasSuffix(key, "]") {
			if f.Metadata == nil {
				f.Metadata = map[string]string{}
			}
			f.Metadata[strings.TrimSuffix(key, "]")], _ = q.text(name)
		}
	}
	l := a.listOf(r, c, q, "status", "agentId", "sessionId", "since", "until", "createdBy", "metadata[", "idPrefix").byID(stint.PrefixRun)
	key := func(s *stint.RunSummary) (stint.Time, string) { return s.CreatedAt, s.ID }
	return pageByTime(l, key, func(page store.Range) ([]stint.RunSummary, error) {
		return a.c.Runs.List(r.Context(), c, f, page)
	})
}

func (a *api) cancelRun(p *post) (*response, error) {
	run, err := a.c.Runs.Cancel(p.r.Context(), p.caller, p.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return jsonResponse(http.StatusOK, withDetails(run)), nil
}

func (a *api) runMetrics(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Runs.Metrics(r.Context(), c, r.PathValue("id"))
}
