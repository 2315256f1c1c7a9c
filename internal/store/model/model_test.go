package model_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The limits of the model. maxRetries limits the number of status changes, and maxOutputs
// limits the number of outputs. Therefore each possible journal fits into the slots, and
// the search visits every state.
const (
	workers    = 3
	maxRetries = 2
	maxOutputs = 3
	slots      = 1 + 2*maxRetries + 2 + maxOutputs
)

type status int8

const (
	pending status = iota
	running
	completed
	failed
	cancelled
)

func (s status) final() bool { return s >= completed }

type kind int8

const (
	free kind = iota
	changed
	output
	terminal
)

// event is the content of one slot of the journal: a change of status, an output, or the
// terminal event.
type event struct {
	kind   kind
	epoch  int8
	status status // the new status; only for the kinds changed and terminal
	wanted int8   // the slot that the writer requested; only for the kind output. epoch and wanted are the token.
}

type phase int8

const (
	idle      phase = iota
	working         // the worker assumes that it owns the run
	sending         // the worker sent an append, and the request or its answer was lost
	finishing       // the worker sent a finish, and the request or its answer was lost
)

// worker is the state of a run as one worker knows it. It may be outdated.
type worker struct {
	phase phase
	epoch int8
	after int8 // number of events that the worker knows to be stored
}

// state is the state of one run and its workers, and the answer to the user's cancel
// request. It is comparable, so it can be the key of a map.
type state struct {
	status   status
	epoch    int8
	head     int8
	outputs  int8
	journal  [slots]event
	workers  [workers]worker
	versions int8 // number of committed versions
	acked    bool // the user's cancel was acknowledged
	due      bool // the cancel was acknowledged but is not written yet; only without the rule atomicCancel
}

// rules states which rules of the protocol are in force. A mutant switches off one rule.
type rules struct {
	fenceAppend   bool // an append must own the run
	fenceFinish   bool // a finish must own the run
	expect        bool // an append states the position that it expects
	atomicCancel  bool // a cancel is written before it is acknowledged
	versionInside bool // a finish commits the version in the same transaction
	reaper        bool // runs of lost workers are reaped
	reapIsAnEvent bool // a reap that requeues the run writes an event
}

func protocol() rules { return rules{true, true, true, true, true, true, true} }

// step is an action and the state after it.
type step struct {
	state  state
	action string
	byUser bool // the user took the action; each run must be able to end without such actions
}

func (s *state) push(e event) bool {
	if s.head == slots {
		return false
	}
	s.journal[s.head] = e
	s.head++
	return true
}

// owns reports whether the worker may write the next slot: the worker knows all stored
// events, and the last event shows that the run is running in the worker's epoch. This is
// the only fence of the protocol. It depends only on the journal.
func owns(s state, w worker) bool {
	last := s.journal[s.head-1]
	return w.after == s.head && last.epoch == w.epoch && (last.kind == output || last.kind == changed && last.status == running)
}

// next returns all steps that are possible in the state s.
func (r rules) next(s state) []step {
	steps := r.serverSteps(s)
	for i, w := range s.workers {
		who := string(rune('A' + i))
		with := func(t state, phase phase, after int8) state {
			t.workers[i] = worker{phase, w.epoch, after}
			return t
		}
		gone := s
		gone.workers[i] = worker{}
		if w.phase != idle {
			steps = append(steps, step{gone, who + " crashes", false})
		}
		switch w.phase {
		case idle:
			steps = append(steps, r.claim(s, i, who)...)
		case working:
			steps = append(steps, r.appends(s, w, who, with, gone)...)
			steps = append(steps, r.finishes(s, w, who, with, gone)...)
			steps = append(steps, r.publishes(s, who)...)
		case sending:
			steps = append(steps, r.appends(s, w, who, with, gone)...)
		case finishing:
			steps = append(steps, r.finishes(s, w, who, with, gone)...)
		}
	}
	return steps
}

func (r rules) claim(s state, i int, who string) []step {
	if s.status != pending || s.due {
		return nil
	}
	s.status, s.epoch = running, s.epoch+1
	s.push(event{kind: changed, epoch: s.epoch, status: running})
	s.workers[i] = worker{working, s.epoch, s.head}
	return []step{{s, who + " claims", false}}
}

// appends returns the possible steps of an append or its retry: the append is acknowledged
// or fenced, or its request or answer is lost.
func (r rules) appends(s state, w worker, who string, with func(state, phase, int8) state, gone state) []step {
	lost := step{with(s, sending, w.after), who + " sends, lost on the way there", false}
	if w.after < s.head && r.expect {
		if e := s.journal[w.after]; e.kind == output && e.epoch == w.epoch && w.phase == sending {
			return []step{{with(s, working, w.after+1), who + " sends again, known by its token", false}, lost}
		}
	}
	if !r.stores(s, w) {
		return []step{{gone, who + " is fenced", false}, lost}
	}
	if s.outputs == maxOutputs {
		return nil
	}
	t := s
	t.outputs++
	if !t.push(event{kind: output, epoch: w.epoch, wanted: w.after}) {
		return nil
	}
	return []step{
		{with(t, working, w.after+1), who + " sends", false},
		{with(t, sending, w.after), who + " sends, lost on the way back", false},
		lost,
	}
}

func (r rules) stores(s state, w worker) bool {
	if !r.fenceAppend {
		return true
	}
	if !r.expect {
		w.after = s.head
	}
	return owns(s, w)
}

// finishes returns the possible steps of a finish or its retry. With the rule
// versionInside, a finish also commits the version.
func (r rules) finishes(s state, w worker, who string, with func(state, phase, int8) state, gone state) []step {
	if w.phase == finishing && w.after < s.head {
		if e := s.journal[w.after]; e.kind == terminal && e.epoch == w.epoch && e.status == completed {
			return []step{{gone, who + " finishes again, known by its token", false}}
		}
	}
	lost := step{with(s, finishing, w.after), who + " finishes, lost on the way there", false}
	if r.fenceFinish && !owns(s, w) {
		return []step{{gone, who + " is fenced", false}, lost}
	}
	t := s
	t.status = completed
	if !t.push(event{kind: terminal, epoch: w.epoch, status: completed}) {
		return nil
	}
	if r.versionInside {
		t.versions++
	}
	done := t
	done.workers[slices.Index(s.workers[:], w)] = worker{}
	return []step{{done, who + " finishes", false}, {with(t, finishing, w.after), who + " finishes, lost on the way back", false}, lost}
}

// publishes returns the step in which a worker commits its version outside the finish. The
// step is possible only without the rule versionInside.
func (r rules) publishes(s state, who string) []step {
	if r.versionInside || s.versions == 2 {
		return nil
	}
	s.versions++
	return []step{{s, who + " publishes", false}}
}

// serverSteps returns the possible steps of the reaper and the user. A lease may expire at
// any time, because the server cannot distinguish a paused worker from a crashed one.
func (r rules) serverSteps(s state) (steps []step) {
	if s.status == running && r.reaper {
		steps = append(steps, r.reap(s))
	}
	if !s.status.final() && r.atomicCancel {
		t := s
		t.end(cancelled)
		t.acked = true
		steps = append(steps, step{t, "the user cancels", true})
	}
	if !r.atomicCancel {
		steps = append(steps, cancelInTwo(s)...)
	}
	return steps
}

func (r rules) reap(s state) step {
	if s.epoch > maxRetries {
		s.end(failed)
		return step{s, "the lease ends for good", false}
	}
	s.status = pending
	if r.reapIsAnEvent {
		s.push(event{kind: changed, epoch: s.epoch, status: pending})
	}
	return step{s, "the lease ends", false}
}

func (s *state) end(as status) {
	s.status = as
	s.push(event{kind: terminal, epoch: s.epoch, status: as})
}

func cancelInTwo(s state) []step {
	if !s.due {
		if s.status.final() {
			return nil
		}
		s.due, s.acked = true, true
		return []step{{s, "the user is acked that the run is cancelled", true}}
	}
	s.due = false
	if !s.status.final() {
		s.end(cancelled)
	}
	return []step{{s, "the cancel is written", true}}
}

// invariants lists the properties that must hold in every state.
var invariants = []struct {
	name  string
	holds func(s state) bool
}{
	{"nothing follows the terminal event", func(s state) bool {
		i := slices.IndexFunc(s.journal[:s.head], func(e event) bool { return e.kind == terminal })
		return i < 0 || i == int(s.head)-1
	}},
	{"row and journal agree", func(s state) bool {
		for i := s.head - 1; i >= 0; i-- {
			if e := s.journal[i]; e.kind != output {
				return e.status == s.status
			}
		}
		return false
	}},
	{"output is stored only while the run is running", func(s state) bool {
		for i, e := range s.journal[:s.head] {
			if e.kind == output && s.journal[i-1].kind == changed && s.journal[i-1].status != running {
				return false
			}
		}
		return true
	}},
	{"epochs never decrease", func(s state) bool {
		return slices.IsSortedFunc(s.journal[:s.head], func(a, b event) int { return int(a.epoch - b.epoch) })
	}},
	{"no output is stored twice", func(s state) bool {
		for i, e := range s.journal[:s.head] {
			if e.kind == output && slices.Contains(s.journal[i+1:s.head], e) {
				return false
			}
		}
		return true
	}},
	{"an acknowledged cancel is stored", func(s state) bool { return !s.acked || s.due || s.status == cancelled }},
	{"a version is committed once, by a completed run", func(s state) bool {
		return s.versions == 0 || s.versions == 1 && s.status == completed
	}},
}

const stuck = "an end is reachable"

// result is the result of explore.
type result struct {
	states int      // number of states found
	broken string   // name of the first invariant that does not hold; empty if all hold
	path   []string // actions that lead to the state in which the invariant does not hold
}

// explore visits all reachable states in breadth-first order. It stops at the first state
// in which an invariant does not hold.
func (r rules) explore() result {
	start := state{head: 1}
	start.journal[0] = event{kind: changed, status: pending}
	found := map[state]int{start: 0}
	all := []state{start}
	from := []int{-1}
	how := []string{"a run is created"}
	back := [][]int{nil} // predecessors of each state, without steps of the user
	path := func(i int) (p []string) {
		for ; i >= 0; i = from[i] {
			p = append(p, how[i])
		}
		slices.Reverse(p)
		return p
	}
	for i := 0; i < len(all); i++ {
		for _, p := range invariants {
			if !p.holds(all[i]) {
				return result{len(all), p.name, path(i)}
			}
		}
		for _, n := range r.next(all[i]) {
			k, ok := found[n.state]
			if !ok {
				k = len(all)
				found[n.state] = k
				all, from, how, back = append(all, n.state), append(from, i), append(how, n.action), append(back, nil)
			}
			if !n.byUser {
				back[k] = append(back[k], i)
			}
		}
	}
	if i := firstStuck(all, back); i >= 0 {
		return result{len(all), stuck, path(i)}
	}
	return result{states: len(all)}
}

// firstStuck returns the index of the first state from which the run cannot end without an
// action of the user, or -1 if the run can end from every state. back contains the
// predecessors of each state.
func firstStuck(all []state, back [][]int) int {
	good := make([]bool, len(all))
	var todo []int
	for i, s := range all {
		if s.status.final() {
			good[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, k := range back[i] {
			if !good[k] {
				good[k] = true
				todo = append(todo, k)
			}
		}
	}
	return slices.Index(good, false)
}

func TestProtocolInvariants(t *testing.T) {
	t.Parallel()
	got := protocol().explore()
	if got.broken != "" {
		t.Fatalf("broken: %s, after %d steps:\n%s", got.broken, len(got.path), strings.Join(got.path, "\n"))
	}
	t.Logf("%d states", got.states)
	if got.states < 10_000 {
		t.Errorf("only %d states were visited", got.states)
	}
}

func TestMutantsBreakInvariants(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name   string
		breaks func(r *rules)
		want   string
	}{
		{"no fence on append", func(r *rules) { r.fenceAppend = false }, "output is stored only while the run is running"},
		{"no fence on finish", func(r *rules) { r.fenceFinish = false }, "nothing follows the terminal event"},
		{"a cancel that is acknowledged before it is written", func(r *rules) { r.atomicCancel = false }, "an acknowledged cancel is stored"},
		{"an append without an expected position", func(r *rules) { r.expect = false }, "no output is stored twice"},
		{"a version committed outside the finish", func(r *rules) { r.versionInside = false }, "a version is committed once, by a completed run"},
		{"no reaper", func(r *rules) { r.reaper = false }, stuck},
		{"a reaper that takes no slot", func(r *rules) { r.reapIsAnEvent = false }, "row and journal agree"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r := protocol()
			m.breaks(&r)
			got := r.explore()
			if diff := cmp.Diff(m.want, got.broken); diff != "" {
				t.Errorf("broken invariant (-want +got):\n%s", diff)
			}
			if len(got.path) < 2 {
				t.Errorf("the path has %d steps", len(got.path))
			}
			t.Logf("%d states, %s", got.states, strings.Join(got.path, " → "))
		})
	}
}
