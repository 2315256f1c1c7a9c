package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// tb contains the methods of testing.TB that a world needs. *rapid.T also implements
// tb.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// world contains the store under test and one organisation, home. Its methods create
// fixtures in the store.
type world struct {
	tb
	real testing.TB // the test that the go command runs, even if tb is a *rapid.T
	h    Harness
	s    store.Store
	ctx  context.Context
	ids  *stint.IDs
	tick *atomic.Int64 // current time in milliseconds since the Unix epoch; the method now increments it
	home *tenant
}

// tenant is an organisation with a user and an agent.
type tenant struct {
	w     *world
	org   string
	user  string
	agent store.Agent
}

// caseLimit is the maximum duration of a test case.
const caseLimit = 5 * time.Minute

func newWorld(t testing.TB, h Harness) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	t.Cleanup(cancel)
	w := &world{tb: t, real: t, h: h, s: h.Open(t), ctx: ctx, tick: new(atomic.Int64)}
	w.tick.Store(time.Now().UnixMilli())
	w.ids = stint.NewIDs(func() time.Time { return time.UnixMilli(w.tick.Load()) }, rand.Reader)
	w.home = w.tenant("home")
	return w
}

// with returns a copy of the world that reports failures to t.
func (w *world) with(t tb) *world {
	c := *w
	home := *w.home
	c.tb, c.home = t, &home
	home.w = &c
	return &c
}

// now advances the world's clock by one millisecond and returns its time.
func (w *world) now() stint.Time { return stint.TimeOf(time.UnixMilli(w.tick.Add(1))) }

// later returns t + d.
func later(t stint.Time, d time.Duration) stint.Time { return stint.Time{Time: t.Add(d)} }

func (w *world) must(err error, doing string) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", doing, err)
	}
}

func (w *world) tenant(name string) *tenant {
	w.Helper()
	m, err := w.s.EnsureMember(w.ctx, store.Member{
		OrgID: w.ids.New(stint.PrefixOrg), OrgName: name,
		UserID: w.ids.New(stint.PrefixUser), UserName: name + "-user",
		Role: "owner", CreatedAt: w.now(),
	})
	w.must(err, "EnsureMember")
	o := &tenant{w: w, org: m.OrgID, user: m.UserID}
	o.agent = o.newAgent("worker-bee")
	return o
}

// agentPair returns a new agent and its first version. It does not store them.
func (o *tenant) agentPair(name string) (store.Agent, store.AgentVersion) {
	at := o.w.now()
	id, version := o.w.ids.New(stint.PrefixAgent), o.w.ids.New(stint.PrefixAgentVersion)
	a := store.Agent{OrgID: o.org, Agent: stint.Agent{ID: id, Name: name, CurrentVersionID: version, CreatedAt: at, UpdatedAt: at}}
	v := store.AgentVersion{
		AgentVersion: stint.AgentVersion{ID: version, AgentID: id, VersionNumber: 1, CreatedAt: at, Definition: json.RawMessage(`{"framework":"shell"}`)},
		Digest:       digest(version), CreatedBy: "user:bee",
	}
	return a, v
}

func (o *tenant) newAgent(name string) store.Agent {
	o.w.Helper()
	a, v := o.agentPair(name)
	o.w.must(o.w.s.CreateAgent(o.w.ctx, a, v), "CreateAgent")
	return a
}

// fileSet stores an artifact or volume without versions.
func (o *tenant) fileSet(kind stint.FileSetKind, name string) store.FileSet {
	o.w.Helper()
	t := o.fileSetOf(kind, name)
	o.w.must(o.w.s.CreateFileSet(o.w.ctx, t), "CreateFileSet")
	return t
}

func (o *tenant) fileSetOf(kind stint.FileSetKind, name string) store.FileSet {
	at := o.w.now()
	return store.FileSet{OrgID: o.org, FileSet: stint.FileSet{ID: o.w.ids.New(kind.Prefix()), Name: name, Kind: kind, CreatedAt: at, UpdatedAt: at}}
}

// commit returns a commit of a version to the file set with the ID tree. Its digest is
// the SHA-256 of word. It does not store the commit.
func (o *tenant) commit(tree, word string) store.Commit {
	return store.Commit{
		OrgID: o.org, FileSetID: tree, Suffix: o.w.suffix(), Digest: digest(word), Size: int64(100 * len(word)), FileCount: int64(len(word)),
		Message: "wrote " + word, CreatedBy: "user:bee", CreatedAt: o.w.now(),
	}
}

func (w *world) suffix() string {
	id := w.ids.New("")
	return strings.NewReplacer("0", "g", "1", "h", "8", "i", "9", "j").Replace(id[len(id)-20:])
}

func digest(word string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(word))) }

// newRun returns a pending run in a new session after applying changes to it. It does
// not store the run.
func (o *tenant) newRun(changes ...func(*store.NewRun)) store.NewRun {
	var n store.NewRun
	n.ID = o.w.ids.New(stint.PrefixRun)
	n.SessionID = o.w.ids.New(stint.PrefixSession)
	n.OpenSession = true
	n.OrgID, n.AgentID, n.AgentName, n.AgentVersionID = o.org, o.agent.ID, o.agent.Name, o.agent.CurrentVersionID
	n.Status, n.Prompt, n.CreatedAt = stint.Pending, "count to three", o.w.now()
	n.Spec, n.Sealed, n.Timeout = json.RawMessage(`{"command":["true"]}`), []byte("sealed"), time.Hour
	for _, change := range changes {
		change(&n)
	}
	return n
}

// create stores the run that newRun returns.
func (o *tenant) create(changes ...func(*store.NewRun)) store.NewRun {
	o.w.Helper()
	n := o.newRun(changes...)
	claims, err := o.w.s.CreateRun(o.w.ctx, n, nil)
	o.w.must(err, "CreateRun")
	if len(claims) > 0 {
		o.w.Fatalf("CreateRun without a claim request claimed %d runs", len(claims))
	}
	return n
}

// createMany stores n pending runs concurrently and returns their IDs.
func (o *tenant) createMany(n int, changes ...func(*store.NewRun)) []string {
	o.w.Helper()
	runs := make([]store.NewRun, n)
	names := make([]string, n)
	for i := range runs {
		runs[i] = o.newRun(changes...)
		names[i] = runs[i].ID
	}
	o.w.concurrently(16, func(k int) error {
		for i := k; i < n; i += 16 {
			if _, err := o.w.s.CreateRun(o.w.ctx, runs[i], nil); err != nil {
				return fmt.Errorf("CreateRun: %w", err)
			}
		}
		return nil
	})
	return names
}

func inSession(id string) func(*store.NewRun) {
	return func(n *store.NewRun) { n.SessionID, n.OpenSession = id, false }
}

// retries lets a run start again up to n times, without a pause, if its worker is lost
// or for one of the reasons.
func retries(n int, reasons ...stint.Reason) func(*store.NewRun) {
	return retriesAfter("0s", n, reasons...)
}

// retriesAfter is like retries with a pause before the first retry.
func retriesAfter(pause string, n int, reasons ...stint.Reason) func(*store.NewRun) {
	return func(r *store.NewRun) {
		r.Retries = &stint.Retries{Max: n, On: append(reasons, stint.ReasonWorkerLost), Backoff: &stint.Backoff{Initial: pause}}
	}
}

func priority(p int) func(*store.NewRun) { return func(r *store.NewRun) { r.Priority = p } }

func ofAgent(a store.Agent) func(*store.NewRun) {
	return func(r *store.NewRun) {
		r.AgentID, r.AgentName, r.AgentVersionID = a.ID, a.Name, a.CurrentVersionID
	}
}

// worker registers a worker with a lease of one hour and returns its ID.
func (w *world) worker() string { return w.workerOn("host-a", time.Hour) }

func (w *world) workerOn(host string, ttl time.Duration) string {
	w.Helper()
	id := w.ids.New(stint.PrefixWorker)
	w.must(w.s.Register(w.ctx, store.Worker{ID: id, Host: host, Capacity: 8, CreatedAt: w.now()}, ttl), "Register")
	return id
}

// claim claims up to limit runs for the worker. The request has no limits per
// organisation or agent.
func (w *world) claim(worker string, limit int) []store.Claim {
	w.Helper()
	claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: limit, At: w.now()})
	w.must(err, "Claim")
	return claims
}

// claimOne claims the next run. If no run is ready, the test fails.
func (w *world) claimOne(worker string) store.Claim {
	w.Helper()
	claims := w.claim(worker, 1)
	if len(claims) != 1 {
		w.Fatalf("Claim returned %d runs, want 1", len(claims))
	}
	return claims[0]
}

// start stores a pending run and claims it for a new worker. If the worker gets
// another run, the test fails.
func (o *tenant) start(changes ...func(*store.NewRun)) store.Claim {
	o.w.Helper()
	n := o.create(changes...)
	c := o.w.claimOne(o.w.worker())
	if c.Run.ID != n.ID {
		o.w.Fatalf("Claim returned %s, want %s", c.Run.ID, n.ID)
	}
	return c
}

// lose ends the worker's lease, calls Reap, and returns the IDs of the reaped runs.
func (w *world) lose(worker string) []string {
	w.Helper()
	w.must(w.s.EndWorker(w.ctx, worker), "EndWorker")
	lost, err := w.s.Reap(w.ctx, w.now(), 100)
	w.must(err, "Reap")
	return lost
}

// output returns an event of type output with the given text.
func (w *world) output(text string) stint.Event {
	data, err := json.Marshal(stint.OutputData{Content: text})
	if err != nil {
		panic(err)
	}
	return stint.Event{Type: stint.EventOutput, At: w.now(), Data: data}
}

// batch returns a batch with a new token and an output event for each text.
func (w *world) batch(texts ...string) store.Batch {
	b := store.Batch{Token: w.token()}
	for _, text := range texts {
		b.Events = append(b.Events, w.output(text))
	}
	return b
}

func (w *world) token() string { return w.ids.New("") }

// append appends the batch to the run's journal at the given position and returns the
// position of the next append.
func (w *world) append(at store.Position, b store.Batch) store.Position {
	w.Helper()
	head, err := w.s.Append(w.ctx, at, b)
	w.must(err, "Append")
	if want := at.After + int64(len(b.Events)); head != want {
		w.Fatalf("Append after %d returned head %d, want %d", at.After, head, want)
	}
	at.After = head
	return at
}

// outcome returns an outcome with a new token and the given status, after applying
// changes to it. Its reason, error, and exit code fit the status.
func (w *world) outcome(status stint.Status, changes ...func(*store.Outcome)) store.Outcome {
	o := store.Outcome{Token: w.token(), Status: status, At: w.now(), ExecutionTimeMs: 42}
	switch status {
	case stint.Failed:
		message, detailed := "exit code 3", "exit code 3\nstderr"
		o.Reason, o.Message, o.Error, o.ErrorCode, o.ExitCode = stint.ReasonExitCode, &message, &detailed, "exit_code", new(3)
	case stint.TimedOut:
		message := "the time limit of 1h was reached"
		o.Reason, o.Message, o.Error, o.ErrorCode = stint.ReasonTimeLimit, &message, &message, "time_limit"
	case stint.Completed:
		o.ExitCode = new(0)
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func (w *world) finish(at store.Position, o store.Outcome) store.Run {
	w.Helper()
	r, err := w.s.Finish(w.ctx, at, o)
	w.must(err, "Finish")
	return r
}

func (w *world) cancel(org, id string) store.Run {
	w.Helper()
	r, err := w.s.Cancel(w.ctx, org, id, w.now())
	w.must(err, "Cancel")
	return r
}

func (o *tenant) run(id string) store.Run {
	o.w.Helper()
	r, err := o.w.s.Run(o.w.ctx, o.org, id)
	o.w.must(err, "Run")
	return r
}

// events returns all events of the run. It reads the journal in pages of 10 events.
func (w *world) events(run string) []stint.Event {
	w.Helper()
	var all []stint.Event
	for after := int64(0); ; {
		page, err := w.s.Events(w.ctx, run, after, 10)
		w.must(err, "Events")
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

func (w *world) head(run string) int64 {
	w.Helper()
	head, _, err := w.s.Head(w.ctx, run)
	w.must(err, "Head")
	return head
}

func ptr[T any](v T) *T { return new(v) }
