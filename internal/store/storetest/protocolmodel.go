package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stint-dev/stint"
)

// call is a client's call that concerns one run.
type call struct {
	op           string // name of the operation; runState.step lists the names
	run          string
	epoch, after int64
	n            int64 // number of events of an append
	token        string
	status       stint.Status // status that a finish stores
}

// answer is the result of a call.
type answer struct {
	ok          bool // the call succeeded; for "events", the last event is the terminal event
	unknown     bool // the result was lost, so the call may or may not have had an effect
	status      stint.Status
	head, epoch int64
}

// runState is the state of a run between two calls.
type runState struct {
	status      stint.Status
	epoch, head int64
	leaseEnded  bool   // the owner's lease has ended
	stored      string // tokens of the writes in the journal, each followed by a semicolon
}

// protocol is the sequential specification of a run, against which porcupine checks the
// history of each run separately.
var protocol = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byRun := make(map[string][]porcupine.Operation)
		for _, op := range history {
			id := op.Input.(call).run
			byRun[id] = append(byRun[id], op)
		}
		parts := make([][]porcupine.Operation, 0, len(byRun))
		for _, part := range byRun {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return runState{status: stint.Pending, head: 1} },
	Step: func(state, input, output any) (bool, any) {
		return state.(runState).step(input.(call), output.(answer))
	},
	Equal: func(a, b any) bool { return a == b },
}

// owns reports whether the append or finish c may change the run: the run is running, its
// owner's lease has not ended, and epoch and position of c are current.
func (m runState) owns(c call) bool {
	return m.status == stint.Running && m.epoch == c.epoch && m.head == c.after && !m.leaseEnded
}

func (m runState) has(token string) bool { return strings.Contains(m.stored, token+";") }

// ended returns the state after a write with the given token has ended the run with the
// given status.
func (m runState) ended(status stint.Status, token string) runState {
	m.status, m.leaseEnded, m.stored = status, false, m.stored+token+";"
	m.head += 2
	if status == stint.Failed {
		m.head++ // the error event precedes the status event
	}
	return m
}

func (m runState) step(c call, a answer) (bool, runState) {
	switch c.op {
	case "claim":
		next := runState{status: stint.Running, epoch: m.epoch + 1, head: m.head + 1, stored: m.stored}
		return m.status == stint.Pending && a.epoch == next.epoch && a.head == next.head, next
	case "append":
		next := m
		next.head, next.stored = m.head+c.n, m.stored+c.token+";"
		return m.decide(c, a, a.head == c.after+c.n, next)
	case "finish":
		return m.decide(c, a, a.status == c.status, m.ended(c.status, c.token))
	case "cancel":
		if m.status.Final() {
			return !a.ok && a.status == m.status, m
		}
		return a.ok, m.ended(stint.Cancelled, "cancel")
	case "end":
		m.leaseEnded = m.leaseEnded || (m.status == stint.Running && m.epoch == c.epoch)
		return true, m
	case "reap":
		if m.epoch <= workloadRetries {
			return m.leaseEnded, runState{status: stint.Pending, epoch: m.epoch, head: m.head + 1, stored: m.stored}
		}
		return m.leaseEnded, m.ended(stint.Failed, "reap")
	case "state":
		return a.status == m.status && a.epoch == m.epoch, m
	case "head":
		return a.status == m.status && a.head == m.head, m
	case "events":
		return a.head == m.head && a.ok == m.status.Final(), m
	}
	return false, m
}

// decide checks the result a of the append or finish c. It reports whether the result is
// correct, and returns the state after the call. right states whether a has the correct
// values for a successful call, and next is the state if the call changes the run. If the
// caller owns the run, the call changes the run. If the call's token is already stored, the
// call succeeds and changes nothing. Otherwise the call is fenced.
func (m runState) decide(c call, a answer, right bool, next runState) (bool, runState) {
	owns, stored := m.owns(c), m.has(c.token)
	switch {
	case a.unknown && owns:
		return true, next
	case a.unknown:
		return true, m
	case a.ok && stored:
		return right, m
	case a.ok:
		return right && owns, next
	default:
		return !owns && !stored, m
	}
}

// check checks the history of each run, for about limit in total. If the history of a run is
// illegal or could not be checked in time, check stops and returns the run's ID and the
// verdict. Otherwise it returns an empty ID and porcupine.Ok.
func (s *workload) check(limit time.Duration) (string, porcupine.CheckResult) {
	deadline := time.Now().Add(limit)
	for _, part := range protocol.Partition(s.ops) {
		// With a timeout of 0, porcupine does not limit the time.
		if verdict := porcupine.CheckOperationsTimeout(protocol, part, max(time.Until(deadline), time.Millisecond)); verdict != porcupine.Ok {
			return part[0].Input.(call).run, verdict
		}
	}
	return "", porcupine.Ok
}

// format returns the calls on a run in the order in which they began, one per line. Times
// are in microseconds since the start of the workload.
func (s *workload) format(run string) string {
	var ops []porcupine.Operation
	for _, op := range s.ops {
		if op.Input.(call).run == run {
			ops = append(ops, op)
		}
	}
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var out strings.Builder
	for _, op := range ops {
		c, a := op.Input.(call), op.Output.(answer)
		fmt.Fprintf(&out, "%10d–%-10d client %2d %s epoch %d after %d +%d %s %s → %+v\n",
			op.Call/1000, min(op.Return/1000, 9_999_999_999), op.ClientId, c.op, c.epoch, c.after, c.n, c.token, c.status, a)
	}
	return out.String()
}

// kinds returns the number of calls for each operation and result: lost, refused, or
// successful.
func (s *workload) kinds() map[string]int {
	out := make(map[string]int)
	for _, op := range s.ops {
		c, a := op.Input.(call), op.Output.(answer)
		switch {
		case a.unknown:
			out[c.op+" lost"]++
		case c.op == "append" && !a.ok, c.op == "finish" && !a.ok, c.op == "cancel" && !a.ok:
			out[c.op+" refused"]++
		default:
			out[c.op]++
		}
	}
	return out
}
