package model_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The bounds of the model. Every path fits into the journal: retries bound the
// transitions and outputs are counted, so that no state is cut off.
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

// event is what stands in a slot of the journal: a change to a status, an
// output, or the end.
type event struct {
	kind   kind
	epoch  int8
	status status // of changed and terminal
	meant  int8   // of output: the slot that its writer meant; with the epoch it is the token
}

type phase int8

const (
	idle      phase = iota
	working         // owns a run, as far as it knows
	sending         // an append is out and its answer was lost
	finishing       // a finish is out and its answer was lost
)

// worker is what one worker knows, which may be out of date.
type worker struct {
	phase phase
	epoch int8
	after int8 // the last event that it knows to be durable
}

// state is one run, its workers and what the user was told. It is comparable.
type state struct {
	status   status
	epoch    int8
	head     int8
	outputs  int8
	journal  [slots]event
	workers  [workers]worker
	versions int8 // published
	told     bool // the user: your cancel is done
	due      bool // a cancel that was answered waits to be written (a mutant)
}

// rules are the protocol. Each can be left out.
type rules struct {
	fenceAppend   bool // an append must own the run
	fenceFinish   bool // a finish must own the run
	expect        bool // an append names its position
	atomicCancel  bool // a cancel is written before it is answered
	versionInside bool // the version is published by the finish
	reaper        bool // runs of lost workers are taken from them
	reapIsAnEvent bool // and that takes a slot
}

func protocol() rules { return rules{true, true, true, true, true, true, true} }

// step is a state and how it was reached.
type step struct {
	state  state
	action string
	byUser bool // nobody may rely on the user to end a run
}

func (s *state) push(e event) bool {
	if s.head == slots {
		return false
	}
	s.journal[s.head] = e
	s.head++
	return true
}

// owns tells whether the slot after the position is free and belongs to the
// epoch: the one fence of the protocol. It looks at the journal alone.
func owns(s state, w worker) bool {
	last := s.journal[s.head-1]
	return w.after == s.head && last.epoch == w.epoch && (last.kind == output || last.kind == changed && last.status == running)
}

// next lists every step out of a state.
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

// appends sends a batch for the first time or again. It is answered, fenced,
// or its answer is lost on the way there or back.
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
	if !t.push(event{kind: output, epoch: w.epoch, meant: w.after}) {
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

// finishes ends the run, in one step with its version.
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

// publishes is what a worker does that publishes its version by itself.
func (r rules) publishes(s state, who string) []step {
	if r.versionInside || s.versions == 2 {
		return nil
	}
	s.versions++
	return []step{{s, who + " publishes", false}}
}

// serverSteps are the reaper's and the user's. A lease may run out at any
// time: a paused worker looks like a dead one.
func (r rules) serverSteps(s state) (steps []step) {
	if s.status == running && r.reaper {
		steps = append(steps, r.reap(s))
	}
	if !s.status.final() && r.atomicCancel {
		t := s
		t.end(cancelled)
		t.told = true
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
		s.due, s.told = true, true
		return []step{{s, "the user is told that the run is cancelled", true}}
	}
	s.due = false
	if !s.status.final() {
		s.end(cancelled)
	}
	return []step{{s, "the cancel is written", true}}
}

// promises hold in every state.
var promises = []struct {
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
	{"output stands where the run is running", func(s state) bool {
		for i, e := range s.journal[:s.head] {
			if e.kind == output && s.journal[i-1].kind == changed && s.journal[i-1].status != running {
				return false
			}
		}
		return true
	}},
	{"epochs never step back", func(s state) bool {
		return slices.IsSortedFunc(s.journal[:s.head], func(a, b event) int { return int(a.epoch - b.epoch) })
	}},
	{"no output stands twice", func(s state) bool {
		for i, e := range s.journal[:s.head] {
			if e.kind == output && slices.Contains(s.journal[i+1:s.head], e) {
				return false
			}
		}
		return true
	}},
	{"an acknowledged cancel holds", func(s state) bool { return !s.told || s.due || s.status == cancelled }},
	{"a version stands for a completed run, once", func(s state) bool {
		return s.versions == 0 || s.versions == 1 && s.status == completed
	}},
}

const stuck = "an end is reachable"

// result is what a visit of all states found.
type result struct {
	states int
	broken string   // the promise that does not hold
	path   []string // to the state where it does not
}

// explore visits every state, nearest first, and stops where a promise breaks.
func (r rules) explore() result {
	start := state{head: 1}
	start.journal[0] = event{kind: changed, status: pending}
	found := map[state]int{start: 0}
	all := []state{start}
	from := []int{-1}
	how := []string{"a run is created"}
	back := [][]int{nil} // edges against their direction, without the user's
	path := func(i int) (p []string) {
		for ; i >= 0; i = from[i] {
			p = append(p, how[i])
		}
		slices.Reverse(p)
		return p
	}
	for i := 0; i < len(all); i++ {
		for _, p := range promises {
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

// firstStuck finds a state from which no end can be reached without the user.
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

func TestProtocolKeepsItsPromises(t *testing.T) {
	t.Parallel()
	got := protocol().explore()
	if got.broken != "" {
		t.Fatalf("broken: %s, after %d steps:\n%s", got.broken, len(got.path), strings.Join(got.path, "\n"))
	}
	t.Logf("%d states", got.states)
	if got.states < 10_000 {
		t.Errorf("only %d states were visited; the model has lost its workers", got.states)
	}
}

func TestMutantsAreFound(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name   string
		breaks func(r *rules)
		want   string
	}{
		{"no fence on append", func(r *rules) { r.fenceAppend = false }, "output stands where the run is running"},
		{"no fence on finish", func(r *rules) { r.fenceFinish = false }, "nothing follows the terminal event"},
		{"a cancel that answers before it writes", func(r *rules) { r.atomicCancel = false }, "an acknowledged cancel holds"},
		{"an append without an expected position", func(r *rules) { r.expect = false }, "no output stands twice"},
		{"a version published outside the finish", func(r *rules) { r.versionInside = false }, "a version stands for a completed run, once"},
		{"no reaper", func(r *rules) { r.reaper = false }, stuck},
		{"a reaper that takes no slot", func(r *rules) { r.reapIsAnEvent = false }, "row and journal agree"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r := protocol()
			m.breaks(&r)
			got := r.explore()
			if diff := cmp.Diff(m.want, got.broken); diff != "" {
				t.Errorf("broken promise (-want +got):\n%s", diff)
			}
			if len(got.path) < 2 {
				t.Errorf("the path has %d steps", len(got.path))
			}
			t.Logf("%d states, %s", got.states, strings.Join(got.path, " → "))
		})
	}
}
