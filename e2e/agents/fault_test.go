package agents_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// refusedRequests checks the errors of runs with a wrong model key or an unknown model.
func refusedRequests(w *tenant) {
	w.agent("refused", nil)
	r := w.create(stint.NewRun{Agent: "refused", Prompt: "Hello.", Secrets: map[string]string{"MODEL_KEY": "sk-wrong-key-000"}})
	w.agent("unknown", object{"model": "mock-small"})
	w.failed(w.create(stint.NewRun{Agent: "unknown", Prompt: "Hello."}), stint.ReasonExitCode, "mock-small")
	words := []string{"key", "401"}
	if w.kind.name != "assistant" { // the assistant does not know the name of the secret
		words = append(words, "MODEL_KEY")
	}
	w.failed(r, stint.ReasonExitCode, words...)
}

// faultyRuns are runs with a model that is unreachable, responds to every request with
// status 500 (refused), or does not respond (waiting). They take long and therefore
// start before all other runs.
type faultyRuns struct {
	tenant                        *tenant
	unreachable, refused, waiting *stint.Run
}

func startFaultyRuns(w *tenant) *faultyRuns {
	w.Helper()
	at := "http://" + installation.Reserve(w)
	d := w.kind.definition(w.model)["provider"].(object)
	d["baseUrl"] = strings.Replace(d["baseUrl"].(string), onHost(w.model.URL), onHost(at), 1)
	w.agent("unreachable", object{"provider": d, "network": object{"mode": "restricted", "allow": []string{hostOf(onHost(at))}}})
	w.agent("faulty", nil)
	return &faultyRuns{
		w, w.create(stint.NewRun{Agent: "unreachable", Prompt: "Hello."}), w.create(stint.NewRun{Agent: "faulty", Prompt: "[[http: 500]]"}),
		w.create(stint.NewRun{Agent: "faulty", Prompt: "[[sleep: 120]]", Limits: &stint.Limits{IdleTimeout: "20s"}}),
	}
}

// check waits until the runs have ended and checks their errors.
func (f *faultyRuns) check(t *testing.T) {
	t.Helper()
	w := *f.tenant
	w.T = t
	r := w.ended(f.waiting.ID)
	if r.Status != stint.TimedOut || installation.Value(r.StatusReason) != stint.ReasonIdleLimit || !strings.Contains(installation.Value(r.StatusMessage), "limits.idleTimeout") {
		w.Errorf("the silent run is %s (%s): %s; %s", r.Status, installation.Value(r.StatusReason), installation.Value(r.Error), w.story(r.ID))
	}
	w.failed(f.refused, stint.ReasonExitCode, "model")
	w.failed(f.unreachable, stint.ReasonExitCode, "reach")
}

// temporaryFault checks that a run completes although two model requests fail, one with
// status 500 and one with status 529.
func temporaryFault(w *tenant) {
	w.agent("patient", nil)
	r := w.run(stint.NewRun{Agent: "patient", Prompt: "[[http: 500*1]] [[run: echo a]] [[http: 529*1]] [[say: made it]]"})
	if string(r.Result) != `"made it"` {
		w.Errorf("the result is %s", r.Result)
	}
}

// longPrompt checks that the model receives a whole prompt that is longer than a
// command line can be.
func longPrompt(w *tenant) {
	w.agent("reader", nil)
	words := strings.Repeat("All work and no play. ", 10_000)
	w.run(stint.NewRun{Agent: "reader", Prompt: words + "the-end. [[say: read]]"})
	for _, r := range w.callsWith("the-end") {
		if !strings.Contains(r.Users[0], words) {
			w.Errorf("the model received %d of %d bytes", len(r.Users[0]), len(words))
		}
	}
}

// resultSchema checks that a run completes if its result matches the schema of the
// definition, and fails otherwise.
func resultSchema(w *tenant) {
	w.agent("former", object{"output": object{"schema": object{
		"type": "object", "properties": object{"answer": object{"type": "integer"}}, "required": []string{"answer"}, "additionalProperties": false,
	}}})
	r := w.run(stint.NewRun{Agent: "former", Prompt: `[[say: {"answer": 42}]]`})
	if string(r.Result) != `{"answer":42}` {
		w.Errorf("the result is %s", r.Result)
	}
	w.fails(stint.NewRun{Agent: "former", Prompt: `[[say: {"answer": "many"}]]`}, stint.ReasonMismatch, "output.schema")
}

// damagedConversation checks that a run fails if the file of its conversation is
// damaged, and that the conversation of an earlier checkpoint can still be continued.
func damagedConversation(w *tenant) {
	w.agent("breaker", nil)
	first := w.run(stint.NewRun{Agent: "breaker", Prompt: "first-word. [[run: echo good]]"})
	w.run(stint.NewRun{SessionID: first.SessionID, Prompt: `second-word. [[run: find ~ -name '*.jsonl' -size -200k | while read -r f; do printf '{"broken\n' > "$f.new"; cat "$f" >> "$f.new"; cat "$f.new" > "$f"; rm "$f.new"; done]]`})
	w.fails(stint.NewRun{SessionID: first.SessionID, Prompt: "third-word."}, stint.ReasonSetupFailed, "cannot be read", "earlier checkpoint")
	w.run(stint.NewRun{CheckpointID: installation.Value(first.CheckpointID), Prompt: "fourth-word."})
	w.checkCalls("fourth-word", "first-word", "fourth-word")
}
