package contract_test

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// timingCases are tests that mostly wait.
var timingCases = []testCase{
	{"a stream without events has heartbeats", heartbeat},
	{"the time limit", timeLimit},
	{"an agent that ignores its time limit", ignoredTimeLimit},
	{"cancel during completion", cancelDuringCompletion},
}

func heartbeat(w *tenant) {
	r := w.startRun(object{"prompt": "sleep 600"})
	s := w.followRun(r.ID)
	last := frame{}
	for {
		f, ok := s.next()
		if !ok {
			w.Fatal("the stream ended")
		}
		if f.Event == "heartbeat" {
			var data struct{ Timestamp stint.Time }
			decode(w, []byte(f.Data), &data)
			w.equal("identifier", last.ID, f.ID)
			break
		}
		last = f
	}
	w.cancel(r.ID)
	w.equal("what follows", []string{"status", "complete"}, types(s.all()))
	for _, e := range w.journal(r.ID) {
		if e.Type == stint.EventHeartbeat {
			w.Error("a heartbeat is stored")
		}
	}
}

// soon is a time limit of runs. It is long enough that an agent begins its work within
// the limit, even on a busy machine.
const soon = "10s"

func timeLimit(w *tenant) {
	r := w.awaitStatus(w.create(object{"prompt": "trap 'echo terminated; exit 0' TERM; echo ready; while :; do sleep 0.05; done", "timeout": soon, "artifactName": "out"}).ID, stint.TimedOut)
	w.equal("output", "ready\nterminated\n", w.output(r.ID))
	w.equal("reason", stint.ReasonTimeLimit, installation.Value(r.StatusReason))
	frames := w.followRun(r.ID).all()
	last := frames[len(frames)-1]
	if last.Event != "complete" || !strings.Contains(last.Data, `"status":"timeout"`) {
		w.Errorf("the last event is %+v", last)
	}
	w.agent("brief", object{"timeout": "1s"})
	w.awaitStatus(w.create(object{"agent": "brief", "prompt": "sleep 600"}).ID, stint.TimedOut)
}

func ignoredTimeLimit(w *tenant) {
	r := w.awaitStatus(w.create(object{"prompt": "trap '' TERM; echo ready; while :; do sleep 0.05; done; echo never", "timeout": soon}).ID, stint.TimedOut)
	w.equal("output", "ready\n", w.output(r.ID))
}

// cancelDuringCompletion cancels runs at about the time at which they complete, and
// checks that either the cancel or the completion wins. The delay before the cancel
// increases until a run completes first. It decreases after each completed run and
// increases after each cancelled run.
func cancelDuringCompletion(w *tenant) {
	won := map[stint.Status]int{}
	delay := time.Duration(0)
	for range 50 {
		r := w.create(object{"prompt": "echo x > out", "artifactName": "out"})
		live := w.followRun(r.ID)
		<-time.After(delay)
		a := w.do(request{method: "POST", path: "/v1/runs/" + r.ID + "/cancel", undocumented: true})
		streamed := live.all()
		last := streamed[len(streamed)-1]
		now := w.read(r.ID)
		won[now.Status]++
		switch step := time.Duration(1+rand.IntN(12)) * time.Millisecond; {
		case now.Status == stint.Completed:
			delay = max(0, delay-max(step, delay/8))
		case won[stint.Completed] == 0: // the delay is still shorter than a run
			delay = 2*delay + step
		default:
			delay += step
		}
		switch f := a.apiError(); {
		case a.StatusCode == 200 && now.Status == stint.Cancelled:
		case a.StatusCode == 400 && f.Code == "invalid_state" && strings.Contains(f.Message, string(now.Status)) && now.Status == stint.Completed:
		default:
			w.Errorf("the cancel returned %d %s, the run is %s", a.StatusCode, a.body, now.Status)
		}
		if last.Event != "complete" || !strings.Contains(last.Data, `"status":"`+string(now.Status)+`"`) {
			w.Errorf("the run is %s, the stream ends with %+v", now.Status, last)
		}
		listed := ""
		for _, item := range list[stint.RunSummary](w, "/v1/runs?sessionId="+r.SessionID, nil) {
			listed = string(item.Status)
		}
		w.equal("status in the list", string(now.Status), listed)
		w.equal("replay", last, lastOf(w.followRun(r.ID).all()))
	}
	if won[stint.Cancelled] == 0 || won[stint.Completed] == 0 {
		w.Errorf("the runs ended %v: cancel and completion did not race", won)
	}
}

func lastOf(frames []frame) frame { return frames[len(frames)-1] }
