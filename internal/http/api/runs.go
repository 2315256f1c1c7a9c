package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/store"
)

const maxWait = 60 // seconds of Prefer: wait=N

func (a *api) createRun(p *post) (*reply, error) {
	var n stint.NewRun
	if err := decodeInto(p.body, &n); err != nil {
		return nil, err
	}
	options := runs.CreateOptions{Key: p.key, Claimed: p.claimed}
	if p.key != "" {
		options.Answer = func(r stint.Run) (*store.Answer, error) { return a.seal(p, created(r)) }
	}
	run, err := a.c.Runs.Create(p.r.Context(), p.caller, n, options)
	if err != nil {
		return nil, err
	}
	p.answered = p.key != ""
	wait := preferredWait(p.r.Header)
	if wait == 0 {
		return created(run), nil
	}
	run, p.answered = a.awaited(p.r.Context(), p.caller, run, wait), false // what this answer says is what a replay says
	answer := created(run)
	answer.set("Preference-Applied", "wait")
	return answer, nil
}

// awaited is the run once it is final, or as it stands after the wait.
func (a *api) awaited(ctx context.Context, c auth.Caller, run stint.Run, wait time.Duration) stint.Run {
	ctx, cancel := a.untilStop(ctx)
	defer cancel()
	if later, err := a.c.Runs.Wait(ctx, c, run.ID, wait); err == nil {
		return later
	}
	return run
}

// created is the answer to the creation of a run, which leaves volumes out.
func created(r stint.Run) *reply {
	r.Volumes = nil
	answer := jsonReply(http.StatusAccepted, complete(r))
	answer.set("Location", "/v1/runs/"+r.ID)
	return answer
}

// complete makes the object of a run whole: metadata is never null.
func complete(r stint.Run) stint.Run {
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	return r
}

// detail is a run as it is read alone: with its volumes, if only with none.
func detail(r stint.Run) stint.Run {
	if r.Volumes == nil {
		r.Volumes = map[string]string{}
	}
	return complete(r)
}

// preferredWait reads Prefer: wait=N, cut to maxWait; 0 for none.
func preferredWait(h http.Header) time.Duration {
	for _, line := range h["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			if n, err := strconv.Atoi(strings.Trim(value, `" `)); err == nil && n > 0 && strings.EqualFold(strings.TrimSpace(name), "wait") {
				return time.Duration(min(n, maxWait)) * time.Second
			}
		}
	}
	return 0
}

// untilStop is a context that ends with the server's work too.
func (a *api) untilStop(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(a.c.Stop, cancel)
	return ctx, func() { stop(); cancel() }
}

func (a *api) getRun(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	id := r.PathValue("id")
	if kept := a.finished.get(c.OrgID + id); kept != nil {
		kept.write(w, r)
		return nil
	}
	run, err := a.c.Runs.Get(r.Context(), *c, id)
	if err != nil {
		return err
	}
	if wait := preferredWait(r.Header); wait > 0 {
		run = a.awaited(r.Context(), *c, run, wait)
		w.Header().Set("Preference-Applied", "wait")
	}
	body := encode(detail(run))
	if settled(&run) {
		a.finished.put(c.OrgID+id, body).write(w, r)
		return nil
	}
	(&reply{status: http.StatusOK, body: body}).write(w)
	return nil
}

// settled reports whether nothing about the run can change any more. Of one
// that was started and then ended by other hands, its worker may still hand in
// a checkpoint.
func settled(r *stint.Run) bool {
	return r.Status.Final() && (r.StartedAt == nil || r.CheckpointID != nil)
}

func (a *api) listRuns(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	f := store.RunFilter{
		Status: stint.Status(q.choice("status", "", statusWords...)),
		Since:  q.time("since"), Until: q.time("until"),
	}
	f.AgentID = q.id("agentId", stint.PrefixAgent)
	f.SessionID = q.id("sessionId", stint.PrefixSession)
	for name := range q.values {
		if key, ok := strings.CutPrefix(name, "metadata["); ok && strings.HasSuffix(key, "]") {
			if f.Metadata == nil {
				f.Metadata = map[string]string{}
			}
			f.Metadata[strings.TrimSuffix(key, "]")], _ = q.text(name)
		}
	}
	l := a.listOf(r, c, q, "status", "agentId", "sessionId", "since", "until", "metadata[")
	place := func(s *stint.RunSummary) (stint.Time, string) { return s.CreatedAt, s.ID }
	return paged(l, place, func(page store.Range) ([]stint.RunSummary, error) {
		return a.c.Runs.List(r.Context(), c, f, page)
	})
}

var statusWords = func() (words []string) {
	for _, s := range stint.Statuses {
		words = append(words, string(s))
	}
	return words
}()

func (a *api) cancelRun(p *post) (*reply, error) {
	run, err := a.c.Runs.Cancel(p.r.Context(), p.caller, p.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, detail(run)), nil
}

func (a *api) runMetrics(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Runs.Metrics(r.Context(), c, r.PathValue("id"))
}
