package storetest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// randomProtocol performs random operations on one run. After each operation, it compares the
// stored run with the expected state that a stateMachine computes.
func randomProtocol(w *world) {
	rapid.Check(w.real, func(t *rapid.T) {
		m := newStateMachine(w.with(t), rapid.IntRange(0, 2).Draw(t, "retries"))
		t.Repeat(map[string]func(*rapid.T){
			"":            m.checkState,
			"claim":       m.claim,
			"append":      m.append,
			"retry":       m.retry,
			"logs":        m.logs,
			"finish":      m.finish,
			"finishAgain": m.finishAgain,
			"cancel":      m.cancel,
			"lose":        m.lose,
		})
		m.end()
	})
}

// stateMachine is a run in the store and the expected state of that run.
type stateMachine struct {
	w        *world
	run      store.NewRun
	worker   string // worker ID of the latest claim
	status   stint.Status
	epoch    int64
	kinds    []string     // expected journal, in the form of world.kinds
	entries  []string     // messages of the expected log entries
	sent     []sentBatch  // all batches sent so far, including fenced ones
	finishes []sentFinish // all outcomes sent so far, including fenced ones
}

type sentBatch struct {
	at     store.Position
	batch  store.Batch
	stored bool
}

type sentFinish struct {
	at      store.Position
	outcome store.Outcome
	stored  bool
}

func newStateMachine(w *world, maxRetries int) *stateMachine {
	return &stateMachine{w: w, run: w.home.create(retries(maxRetries, stint.ReasonTimeLimit)), status: stint.Pending, kinds: []string{"pending"}}
}

func (m *stateMachine) head() int64 { return int64(len(m.kinds)) }

func (m *stateMachine) owns(at store.Position) bool {
	return m.status == stint.Running && at.Epoch == m.epoch && at.After == m.head()
}

// end ends the run if necessary, so that the next state machine cannot claim it, and checks
// the run's invariants.
func (m *stateMachine) end() {
	if !m.status.Final() {
		m.w.cancel(m.w.home.org, m.run.ID)
	}
	m.w.home.checkRun(m.run.ID)
}

// checkState compares the stored state of the run with the expected state.
func (m *stateMachine) checkState(*rapid.T) {
	head, status, err := m.w.s.Head(m.w.ctx, m.run.ID)
	m.w.must(err, "Head")
	_, epoch, err := m.w.s.RunState(m.w.ctx, m.run.ID)
	m.w.must(err, "RunState")
	m.w.diff("head, epoch, status", []any{m.head(), m.epoch, m.status}, []any{head, epoch, status})
	m.w.diff("journal", m.kinds, m.w.kinds(m.w.events(m.run.ID), 1))
	m.w.diff("entries", m.entries, m.w.messages(m.run.ID))
}

// position returns the current owner's position or, in one of three cases, a random epoch and
// position that may be wrong.
func (m *stateMachine) position(t *rapid.T) store.Position {
	at := store.Position{RunID: m.run.ID, Epoch: m.epoch, After: m.head()}
	if rapid.IntRange(0, 2).Draw(t, "stray") == 0 {
		at.Epoch = rapid.Int64Range(0, m.epoch+1).Draw(t, "epoch")
		at.After = rapid.Int64Range(0, m.head()+2).Draw(t, "after")
	}
	return at
}

// verdict checks that err is nil if want is true, and that err is a *FencedError otherwise.
func (m *stateMachine) verdict(err error, want bool, doing string) {
	if want {
		m.w.must(err, doing)
		return
	}
	m.w.wantFenced(err, m.run.ID, doing)
}

func (m *stateMachine) claim(*rapid.T) {
	worker := m.w.worker()
	claims := m.w.claim(worker, 1)
	if m.status != stint.Pending {
		m.w.diff("claims", 0, len(claims))
		return
	}
	m.worker, m.status, m.epoch = worker, stint.Running, m.epoch+1
	m.kinds = append(m.kinds, "running")
	want := store.Position{RunID: m.run.ID, Epoch: m.epoch, After: m.head()}
	if len(claims) != 1 || claims[0].Position != want {
		m.w.Fatalf("Claim returned %v, want %v", claims, want)
	}
}

func (m *stateMachine) append(t *rapid.T) {
	s := sentBatch{at: m.position(t), batch: m.w.batch(slices.Repeat([]string{"x"}, rapid.IntRange(1, 3).Draw(t, "events"))...)}
	if rapid.Bool().Draw(t, "with a log") {
		s.batch.Logs = m.w.logBatch(fmt.Sprint("entry ", len(m.sent))).Logs
	}
	m.sent = append(m.sent, s)
	m.send(&m.sent[len(m.sent)-1])
}

func (m *stateMachine) retry(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing was sent")
	}
	m.send(&m.sent[rapid.IntRange(0, len(m.sent)-1).Draw(t, "which")])
}

func (m *stateMachine) send(s *sentBatch) {
	owns := m.owns(s.at)
	head, err := m.w.s.Append(m.w.ctx, s.at, s.batch)
	m.verdict(err, owns || s.stored, fmt.Sprintf("Append at %v", s.at))
	if !owns || s.stored {
		return
	}
	s.stored = true
	for range s.batch.Events {
		m.kinds = append(m.kinds, "output")
	}
	for _, e := range s.batch.Logs {
		m.entries = append(m.entries, e.Message)
	}
	m.w.diff("new head", m.head(), head)
}

func (m *stateMachine) logs(t *rapid.T) {
	at := m.position(t)
	_, err := m.w.s.Append(m.w.ctx, at, m.w.logBatch("alone"))
	// A batch without events has no position, so the store checks only the epoch.
	owns := m.status == stint.Running && at.Epoch == m.epoch
	m.verdict(err, owns, fmt.Sprintf("Append of logs at %v", at))
	if owns {
		m.entries = append(m.entries, "alone")
	}
}

func (m *stateMachine) finish(t *rapid.T) {
	status := rapid.SampledFrom([]stint.Status{stint.Completed, stint.Failed, stint.TimedOut}).Draw(t, "status")
	m.finishes = append(m.finishes, sentFinish{at: m.position(t), outcome: m.w.outcome(status)})
	m.sendFinish(&m.finishes[len(m.finishes)-1])
}

func (m *stateMachine) finishAgain(t *rapid.T) {
	if len(m.finishes) == 0 {
		t.Skip("nothing was sent")
	}
	m.sendFinish(&m.finishes[rapid.IntRange(0, len(m.finishes)-1).Draw(t, "which")])
}

func (m *stateMachine) sendFinish(s *sentFinish) {
	owns := m.owns(s.at)
	r, err := m.w.s.Finish(m.w.ctx, s.at, s.outcome)
	m.verdict(err, owns || s.stored, fmt.Sprintf("Finish at %v", s.at))
	if !owns && !s.stored {
		return
	}
	if s.stored {
		m.w.diff("answered status", m.status, r.Status)
		return
	}
	s.stored = true
	if s.outcome.Status == stint.TimedOut && m.epoch <= int64(m.run.Retries.Max) {
		m.status = stint.Pending
		m.kinds = append(m.kinds, "pending")
	} else {
		m.ended(s.outcome.Status)
	}
	m.w.diff("answered status", m.status, r.Status)
}

func (m *stateMachine) ended(status stint.Status) {
	m.status = status
	if status == stint.Failed || status == stint.TimedOut {
		m.kinds = append(m.kinds, "error")
	}
	m.kinds = append(m.kinds, string(status), "complete")
}

func (m *stateMachine) cancel(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "really") > 0 && !m.status.Final() {
		t.Skip("the run would end too soon")
	}
	_, err := m.w.s.Cancel(m.w.ctx, m.w.home.org, m.run.ID, m.w.now())
	if m.status.Final() {
		m.w.wantState(err, m.status, "Cancel")
		return
	}
	m.w.must(err, "Cancel")
	m.ended(stint.Cancelled)
}

func (m *stateMachine) lose(t *rapid.T) {
	if m.worker == "" {
		t.Skip("no worker has claimed it yet")
	}
	lost := m.w.lose(m.worker)
	if m.status != stint.Running {
		m.w.diff("lost", 0, len(lost))
		return
	}
	m.w.diff("lost", []string{m.run.ID}, lost)
	if m.epoch <= int64(m.run.Retries.Max) {
		m.status = stint.Pending
		m.kinds = append(m.kinds, "pending")
		return
	}
	m.ended(stint.Failed)
}
