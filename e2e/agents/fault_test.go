package agents_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// refused: what is wrong with key and model is told in words.
func refused(w *world) {
	w.agent("refused", nil)
	r := w.create(stint.NewRun{Agent: "refused", Prompt: "Hello.", Secrets: map[string]string{"MODEL_KEY": "sk-wrong-key-000"}})
	w.agent("unknown", object{"model": "mock-small"})
	w.failed(w.create(stint.NewRun{Agent: "unknown", Prompt: "Hello."}), stint.ReasonExitCode, "mock-small")
	words := []string{"key", "401"}
	if w.kind.name != "assistant" { // which does not know what the secret is called
		words = append(words, "MODEL_KEY")
	}
	w.failed(r, stint.ReasonExitCode, words...)
}

// faulty are runs whose model is not there, has a fault that stays, or says
// nothing. They take their time, which is why they begin before all others.
type faulty struct {
	world                    *world
	lonely, refused, waiting *stint.Run
}

func beginFaulty(w *world) *faulty {
	w.Helper()
	at := "http://" + installation.Reserve(w)
	d := w.kind.definition(w.model)["provider"].(object)
	d["baseUrl"] = strings.Replace(d["baseUrl"].(string), onHost(w.model.URL), onHost(at), 1)
	w.agent("lonely", object{"provider": d, "network": object{"mode": "restricted", "allow": []string{hostOf(onHost(at))}}})
	w.agent("faulty", nil)
	return &faulty{
		w, w.create(stint.NewRun{Agent: "lonely", Prompt: "Hello."}), w.create(stint.NewRun{Agent: "faulty", Prompt: "[[http: 500]]"}),
		w.create(stint.NewRun{Agent: "faulty", Prompt: "[[sleep: 120]]", Limits: &stint.Limits{IdleTimeout: "20s"}}),
	}
}

// end demands that each was ended for what it is.
func (f *faulty) end(t *testing.T) {
	t.Helper()
	w := *f.world
	w.T = t
	r := w.ended(f.waiting.ID)
	if r.Status != stint.TimedOut || installation.Value(r.StatusReason) != stint.ReasonTimeLimit || !strings.Contains(installation.Value(r.Error), "limits.idleTimeout") {
		w.Errorf("the silent run is %s (%s): %s; %s", r.Status, installation.Value(r.StatusReason), installation.Value(r.Error), w.story(r.ID))
	}
	w.failed(f.refused, stint.ReasonExitCode, "model")
	w.failed(f.lonely, stint.ReasonExitCode, "reach")
}

// recovers: a fault that passes is nothing that the run fails by.
func recovers(w *world) {
	w.agent("patient", nil)
	r := w.run(stint.NewRun{Agent: "patient", Prompt: "[[http: 500*1]] [[run: echo a]] [[http: 529*1]] [[say: made it]]"})
	if string(r.Result) != `"made it"` {
		w.Errorf("the result is %s", r.Result)
	}
}

// long: a prompt is larger than a command line may be.
func long(w *world) {
	w.agent("reader", nil)
	words := strings.Repeat("All work and no play. ", 10_000)
	w.run(stint.NewRun{Agent: "reader", Prompt: words + "the-end. [[say: read]]"})
	for _, r := range w.asked("the-end") {
		if !strings.Contains(r.Users[0], words) {
			w.Errorf("the model heard %d bytes of %d", len(r.Users[0]), len(words))
		}
	}
}

// forms: a result has the form that the definition asks for, or the run fails.
func forms(w *world) {
	w.agent("former", object{"output": object{"schema": object{
		"type": "object", "properties": object{"answer": object{"type": "integer"}}, "required": []string{"answer"}, "additionalProperties": false,
	}}})
	r := w.run(stint.NewRun{Agent: "former", Prompt: `[[say: {"answer": 42}]]`})
	if string(r.Result) != `{"answer":42}` {
		w.Errorf("the result is %s", r.Result)
	}
	w.fails(stint.NewRun{Agent: "former", Prompt: `[[say: {"answer": "many"}]]`}, stint.ReasonExitCode, "output.schema")
}

// damaged: a conversation that cannot be read back is told, and an earlier one
// goes on.
func damaged(w *world) {
	w.agent("breaker", nil)
	first := w.run(stint.NewRun{Agent: "breaker", Prompt: "first-word. [[run: echo good]]"})
	w.run(stint.NewRun{SessionID: first.SessionID, Prompt: `second-word. [[run: find ~ -name '*.jsonl' -size -200k | while read -r f; do printf '{"broken\n' > "$f.new"; cat "$f" >> "$f.new"; cat "$f.new" > "$f"; rm "$f.new"; done]]`})
	w.fails(stint.NewRun{SessionID: first.SessionID, Prompt: "third-word."}, stint.ReasonSetupFailed, "cannot be read", "earlier checkpoint")
	w.run(stint.NewRun{CheckpointID: installation.Value(first.CheckpointID), Prompt: "fourth-word."})
	w.heard("fourth-word", "first-word", "fourth-word")
}
