package agents_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// continuedConversation checks that the next run of a session continues the
// conversation, and that runs from a checkpoint continue the conversation that the
// checkpoint contains, each in a new session.
func continuedConversation(w *tenant) {
	w.agent("talker", nil)
	first := w.run(stint.NewRun{Agent: "talker", Prompt: "first-word. [[run: echo one > one.txt]]"})
	second := w.run(stint.NewRun{SessionID: first.SessionID, Prompt: "second-word. [[run: cat one.txt]]"})
	if second.SessionID != first.SessionID {
		w.Errorf("the second run belongs to session %s, the first to %s", second.SessionID, first.SessionID)
	}
	w.checkCalls("second-word", "first-word", "second-word")
	if text := w.transcript(second.ID); !strings.Contains(text, "\none\n") || !strings.Contains(text, "user_turns=2") {
		w.Errorf("the second run does not continue the first; %s", w.story(second.ID))
	}

	// All forks start from the first checkpoint at the same time.
	var forks []*stint.Run
	for i := range 3 {
		forks = append(forks, w.create(stint.NewRun{CheckpointID: installation.Value(first.CheckpointID), Prompt: fmt.Sprintf("fork-%d. [[say: forked %d]]", i, i)}))
	}
	sessions := []string{first.SessionID}
	for i, f := range forks {
		r := w.ended(f.ID)
		if r.Status != stint.Completed || string(r.Result) != fmt.Sprintf(`"forked %d"`, i) || installation.Value(r.ParentRunID) != first.ID {
			w.Fatalf("fork %d: %s, %s, of %s; %s", i, r.Status, r.Result, installation.Value(r.ParentRunID), w.story(r.ID))
		}
		w.checkCalls(fmt.Sprintf("fork-%d.", i), "first-word", fmt.Sprintf("fork-%d.", i))
		sessions = append(sessions, r.SessionID)
	}
	slices.Sort(sessions)
	if len(slices.Compact(sessions)) != 4 {
		w.Errorf("the sessions of a run and its three forks are %v", sessions)
	}
	third := w.run(stint.NewRun{SessionID: first.SessionID, Prompt: "third-word."})
	if third.SessionID != first.SessionID {
		w.Errorf("the third run belongs to another session")
	}
	w.checkCalls("third-word", "first-word", "second-word", "third-word")
}

// checkCalls checks that the model was called with mark in the newest user message. In
// each of these calls, the user messages must contain the given texts, one each, in
// this order.
func (w *tenant) checkCalls(mark string, messages ...string) {
	w.Helper()
	calls := w.callsWith(mark)
	if len(calls) == 0 {
		w.Errorf("the model was not called with %q", mark)
	}
	for _, r := range calls {
		var got []string
		for i, text := range r.Users {
			if i < len(messages) && strings.Contains(text, messages[i]) {
				text = messages[i]
			}
			got = append(got, text)
		}
		if d := cmp.Diff(messages, got); d != "" {
			w.Errorf("messages before %q (-want +got):\n%s", mark, d)
		}
	}
}

// cancelledTool checks that a run that is cancelled during a tool call leaves no
// processes, and that its conversation can be continued.
func cancelledTool(w *tenant) {
	w.agent("sleeper", nil)
	sleepCommand := fmt.Sprintf("sleep 77.%d", time.Now().UnixNano())
	r := w.create(stint.NewRun{Agent: "sleeper", Prompt: "long-word. [[run: echo started > s; " + sleepCommand + "]]"})
	w.item(r.ID, func(o stint.OutputData) bool { return o.Item != nil && o.Item.Kind == stint.ItemToolCall })
	w.waitUntil("the tool call", func() bool {
		return slices.ContainsFunc(processes(sleepCommand), func(line string) bool { return strings.HasPrefix(line, sleepCommand) }) // not the shell that started the command
	})
	_, err := w.client.Runs.Cancel(w.Context(), r.ID)
	installation.Check(w, err)
	if r = w.ended(r.ID); r.Status != stint.Cancelled || installation.Value(r.StatusReason) != stint.ReasonCancelled {
		w.Fatalf("the run is %s (%s); %s", r.Status, installation.Value(r.StatusReason), w.story(r.ID))
	}
	w.waitUntil("the end of the processes", func() bool { return len(processes(sleepCommand)) == 0 })
	w.waitUntil("the checkpoint of the cancelled run", func() bool {
		r, err = w.client.Runs.Get(w.Context(), r.ID)
		installation.Check(w, err)
		return r.CheckpointID != nil
	})

	next := w.run(stint.NewRun{SessionID: r.SessionID, Prompt: "next-word. [[run: cat s]]"})
	w.checkCalls("next-word", "long-word", "next-word")
	if !strings.Contains(w.transcript(next.ID), "started") {
		w.Errorf("the next run does not see the files of the cancelled one; %s", w.story(next.ID))
	}
}

// killedProgram checks that a conversation can be continued after the program of its
// agent was killed.
func killedProgram(w *tenant) {
	w.agent("killed", nil)
	r := w.ended(w.create(stint.NewRun{Agent: "killed", Prompt: "last-word. [[run: echo alive > a; kill -9 $PPID; sleep 9]]"}).ID)
	if r.Status != stint.Failed {
		w.Fatalf("a run whose program is killed is %s; %s", r.Status, w.story(r.ID))
	}
	next := w.run(stint.NewRun{SessionID: r.SessionID, Prompt: "next-word. [[run: cat a]]"})
	w.checkCalls("next-word", "last-word", "next-word")
	if !strings.Contains(w.transcript(next.ID), "alive") {
		w.Errorf("the next run does not see the files of the killed one; %s", w.story(next.ID))
	}
}

// processes returns the command lines that contain words. It searches all processes of
// this machine, including those in sandboxes, except the test itself.
func processes(words string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		line, _ := os.ReadFile(p) // fails if the process has ended
		if text := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(text, words) && filepath.Base(filepath.Dir(p)) != fmt.Sprint(os.Getpid()) {
			found = append(found, text)
		}
	}
	return found
}

// waitUntil waits until ok returns true, for at most waitLimit. The text in what names
// the awaited event in the failure message.
func (w *tenant) waitUntil(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(waitLimit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			w.Fatalf("waiting for %s: not within %s", what, waitLimit)
		}
		<-tick.C
	}
}
