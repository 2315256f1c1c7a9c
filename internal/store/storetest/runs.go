package storetest

import (
	"encoding/json"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var runCases = []testCase{
	{"CreateRun stores all fields", func(w *world) {
		n := w.home.create(withAllFields, w.home.mounting("data"))
		w.diff("run", n.Run, w.home.run(n.ID))
		status, epoch, err := w.s.RunState(w.ctx, n.ID)
		w.must(err, "RunState")
		w.diff("status", stint.Pending, status)
		w.diff("epoch", int64(0), epoch)
	}},
	{"CreateRun writes event 1, status pending", func(w *world) {
		n := w.home.create()
		want := []stint.Event{{Seq: 1, Type: stint.EventStatus, At: n.CreatedAt, Data: json.RawMessage(`{"status":"pending"}`)}}
		w.diff("journal", want, w.events(n.ID))
		w.home.checkRun(n.ID)
	}},
	{"times are truncated to milliseconds", func(w *world) {
		exact := w.now()
		fine := stint.Time{Time: exact.Add(999_999 * time.Nanosecond)}
		n := w.home.create(func(n *store.NewRun) { n.CreatedAt = fine })
		c := w.claimOne(w.worker())
		e := w.output("x")
		e.At = stint.Time{Time: later(exact, time.Second).Add(123_456 * time.Nanosecond)}
		at := w.append(c.Position, store.Batch{Token: w.token(), Events: []stint.Event{e}})
		end := stint.Time{Time: later(exact, time.Minute).Add(1_001 * time.Nanosecond)}
		w.finish(at, w.outcome(stint.Completed, func(o *store.Outcome) { o.At = end }))
		r := w.home.checkRun(n.ID)
		w.diff("createdAt", exact, r.CreatedAt)
		w.diff("completedAt", new(later(exact, time.Minute)), r.CompletedAt)
		w.diff("event", later(exact, time.Second), w.events(n.ID)[2].At)
	}},
	{"an unknown run is not found", func(w *world) {
		id := w.ids.New(stint.PrefixRun)
		_, err := w.s.Run(w.ctx, w.home.org, id)
		w.wantErr(err, store.ErrNotFound, "Run")
		_, _, err = w.s.RunState(w.ctx, id)
		w.wantErr(err, store.ErrNotFound, "RunState")
		head, _, err := w.s.Head(w.ctx, id)
		w.must(err, "Head")
		w.diff("head", int64(0), head)
		w.diff("events", []stint.Event(nil), w.events(id))
	}},
	{"CreateRun in an unknown session stores nothing", func(w *world) {
		n := w.home.newRun(inSession(w.ids.New(stint.PrefixSession)))
		_, err := w.s.CreateRun(w.ctx, n, nil)
		w.wantErr(err, store.ErrNotFound, "CreateRun")
		_, err = w.s.Run(w.ctx, w.home.org, n.ID)
		w.wantErr(err, store.ErrNotFound, "Run")
		w.diff("head", int64(0), w.head(n.ID))
	}},
	{"CreateRun in another organisation's session stores nothing", func(w *world) {
		other := w.tenant("other").create()
		n := w.home.newRun(inSession(other.SessionID))
		_, err := w.s.CreateRun(w.ctx, n, nil)
		w.wantErr(err, store.ErrNotFound, "CreateRun")
	}},
	{"CreateRun stores the request's answer", func(w *world) {
		now := w.now()
		w.home.begin("key", "f", now, nil)
		want := &store.Answer{Status: 202, Header: map[string]string{"Location": "/v1/runs/x"}, Body: []byte(`{"id":"x"}`)}
		w.home.create(func(n *store.NewRun) { n.Key, n.Claimed, n.Answer = "key", now, want })
		w.home.begin("key", "f", w.now(), want)
	}},
	{"a failed CreateRun stores no answer", func(w *world) {
		since := w.home.begin("key", "f", w.now(), nil)
		n := w.home.newRun(inSession(w.ids.New(stint.PrefixSession)))
		n.Key, n.Claimed, n.Answer = "key", since, &store.Answer{Status: 202}
		_, err := w.s.CreateRun(w.ctx, n, nil)
		w.wantErr(err, store.ErrNotFound, "CreateRun")
		_, err = w.home.beginRequest("key", "f", w.now())
		w.wantErr(err, store.ErrKeyInUse, "BeginRequest")
	}},
	{"CreateRun with a claim request claims the new run", func(w *world) {
		n := w.home.newRun()
		claims, err := w.s.CreateRun(w.ctx, n, &store.ClaimRequest{WorkerID: w.worker(), Max: 1, At: w.now()})
		w.must(err, "CreateRun")
		w.diff("claimed", []string{n.ID}, claimed(claims))
		w.diff("position", store.Position{RunID: n.ID, Epoch: 1, After: 2}, claims[0].Position)
		w.diff("events", []string{"pending", "running"}, w.kinds(w.events(n.ID), 1))
		w.diff("claimed run", w.home.checkRun(n.ID), claims[0].Run)
	}},
	{"CreateRun with a claim request claims the first ready run", func(w *world) {
		older := w.home.create()
		n := w.home.newRun()
		worker := w.worker()
		claims, err := w.s.CreateRun(w.ctx, n, &store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
		w.must(err, "CreateRun")
		w.diff("claimed", []string{older.ID}, claimed(claims))
		w.diff("status of the new run", stint.Pending, w.home.checkRun(n.ID).Status)
		claims, err = w.s.CreateRun(w.ctx, w.home.newRun(), &store.ClaimRequest{WorkerID: worker, Max: 5, At: w.now()})
		w.must(err, "CreateRun")
		w.diff("claims of the two that are left", 2, len(claims))
	}},
	{"CreateRun with a claim request obeys its limits", func(w *world) {
		worker := w.worker()
		limit := &store.ClaimRequest{WorkerID: worker, Max: 1, PerOrg: 1, At: w.now()}
		for i, want := range []int{1, 0} {
			n := w.home.newRun()
			claims, err := w.s.CreateRun(w.ctx, n, limit)
			w.must(err, "CreateRun")
			if len(claims) != want {
				w.Errorf("CreateRun %d claimed %d runs, want %d", i+1, len(claims), want)
			}
			w.home.checkRun(n.ID)
		}
	}},
	{"CreateRun with a claim request does not claim a run that waits for its session", func(w *world) {
		first := w.home.start()
		n := w.home.newRun(inSession(first.Run.SessionID))
		claims, err := w.s.CreateRun(w.ctx, n, &store.ClaimRequest{WorkerID: w.worker(), Max: 1, At: w.now()})
		w.must(err, "CreateRun")
		w.diff("claims", 0, len(claims))
	}},
	{"Expire ends pending runs created before the limit", func(w *world) {
		first, second := w.home.create(), w.home.create()
		edge, young := w.home.create(), w.home.create()
		ids, err := w.s.Expire(w.ctx, edge.CreatedAt, w.now(), 10)
		w.must(err, "Expire")
		w.diff("expired", map[string]bool{first.ID: true, second.ID: true}, set(ids))
		for _, id := range ids {
			r := w.home.checkRun(id)
			w.diff("status", stint.Failed, r.Status)
			w.diff("reason", ptr(stint.ReasonQueueExpired), r.StatusReason)
			w.diff("events", []string{"pending", "error", "failed", "complete"}, w.kinds(w.events(id), 1))
			w.wantError(id, r)
		}
		for _, n := range []store.NewRun{edge, young} {
			w.diff("status of a younger run", stint.Pending, w.home.checkRun(n.ID).Status)
		}
	}},
	{"Expire ends at most n runs and no running ones", func(w *world) {
		running := w.home.start()
		w.home.createMany(5)
		limit := later(w.now(), time.Hour)
		for _, want := range []int{2, 2, 1, 0} {
			ids, err := w.s.Expire(w.ctx, limit, w.now(), 2)
			w.must(err, "Expire")
			w.diff("expired", want, len(ids))
		}
		w.diff("status of the running run", stint.Running, w.home.checkRun(running.Run.ID).Status)
	}},
	{"an expired run cannot be claimed", func(w *world) {
		w.home.create()
		_, err := w.s.Expire(w.ctx, later(w.now(), time.Hour), w.now(), 10)
		w.must(err, "Expire")
		w.diff("claims", 0, len(w.claim(w.worker(), 1)))
	}},
	{"of concurrent Expire and Claim exactly one succeeds", func(w *world) {
		worker := w.worker()
		for range 30 {
			n := w.home.create()
			var expired []string
			var claims []store.Claim
			w.concurrently(2, func(i int) (err error) {
				if i == 0 {
					expired, err = w.s.Expire(w.ctx, later(n.CreatedAt, time.Hour), w.now(), 10)
				} else {
					claims, err = w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
				}
				return err
			})
			if len(expired)+len(claims) != 1 {
				w.Fatalf("%d expired and %d claimed, want one of both", len(expired), len(claims))
			}
			w.home.checkRun(n.ID)
			if len(claims) == 1 {
				w.finish(claims[0].Position, w.outcome(stint.Completed))
			}
		}
	}},
}

// withAllFields sets the optional fields of a new run, most of them to unusual values.
func withAllFields(n *store.NewRun) {
	n.Prompt = "naïve 'quotes' \"and\" \n 日本語"
	n.Metadata = map[string]string{"team": "blue", "": "empty key", "k.k": "ünïcode"}
	n.ParentRunID, n.TraceID = new("run_parent"), new("0af7651916cd43dd8448eb211c80319c")
	n.ArtifactName, n.ArtifactVersion = new("pages"), new("v1_bbbbbbbbbbbbbbbbbbbb")
	n.Spec = json.RawMessage(`{"a":[1,2,{"b":null}],"c":"\u00e9"}`)
	n.Sealed, n.CreatedBy = []byte{0, 1, 2, 255}, new("user:ünï")
	n.Priority, n.Timeout = 7, 90*time.Second+500*time.Millisecond
	n.Retries = &stint.Retries{
		Max: 3, On: []stint.Reason{stint.ReasonWorkerLost, stint.ReasonExitCode}, From: stint.RetryFromStart,
		Backoff: &stint.Backoff{Initial: "2s", Factor: 1.5, Max: "1h"},
	}
}

func claimed(claims []store.Claim) []string {
	var ids []string
	for _, c := range claims {
		ids = append(ids, c.Run.ID)
	}
	return ids
}

func set(ids []string) map[string]bool {
	m := make(map[string]bool)
	for _, id := range ids {
		m[id] = true
	}
	return m
}

// wantError checks that the run r has an error, and that its error event has the
// message of this error and, as its code, the status reason of the run.
func (w *world) wantError(id string, r store.Run) {
	w.Helper()
	if r.Error == nil || *r.Error == "" || r.StatusReason == nil {
		w.Fatalf("run %s is %s without an error", id, r.Status)
	}
	for _, e := range w.events(id) {
		if e.Type == stint.EventError {
			w.diff("error event", stint.ErrorData{Message: *r.Error, Code: string(*r.StatusReason)}, data[stint.ErrorData](w, e))
			return
		}
	}
	w.Errorf("run %s has no error event", id)
}
