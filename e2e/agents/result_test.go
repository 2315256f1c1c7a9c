package agents_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// toolAndResult checks a run in which the agent changes a file with a tool: the events
// of the tool call, the artifact version, the result, the usage, and the logs.
func toolAndResult(w *tenant) {
	w.agent("worker", nil)
	r := w.run(stint.NewRun{
		Agent: "worker", ArtifactName: "out",
		Prompt: "Please. [[usage: in=100,out=20,cacheRead=10,reasoning=0]] [[run: echo hi > made.txt; echo made it]]",
	})

	kinds := map[stint.ItemKind][]stint.OutputData{}
	for _, o := range w.outputs(r.ID) {
		if o.Item != nil {
			kinds[o.Item.Kind] = append(kinds[o.Item.Kind], o)
		}
	}
	calls, results := kinds[stint.ItemToolCall], kinds[stint.ItemToolResult]
	if len(calls) != 1 || len(results) != 1 || len(kinds[stint.ItemMessage]) == 0 {
		w.Fatalf("%d calls, %d results, %d messages; %s", len(calls), len(results), len(kinds[stint.ItemMessage]), w.story(r.ID))
	}
	call, result := calls[0].Item.Tool, results[0].Item.Tool
	if call.ID == "" || call.ID != result.ID || call.Category != "execute" || result.Status != stint.ToolCompleted {
		w.Errorf("the tool's call is %+v, its result %+v", call, result)
	}
	if !strings.Contains(calls[0].Content, "echo hi > made.txt") || !strings.Contains(results[0].Content, "made it") {
		w.Errorf("the contents of the tool events are %q and %q", calls[0].Content, results[0].Content)
	}
	w.checkEnd(r)
	w.checkFile(r, "made.txt", "hi\n")
	w.checkLogs(r)
}

// checkEnd checks the result and the usage of a run: both equal those of its complete
// event, the result is the answer of the model, and the usage is the sum of the model
// calls.
func (w *tenant) checkEnd(r *stint.Run) {
	w.Helper()
	var text string
	installation.Check(w, json.Unmarshal(r.Result, &text))
	if !strings.Contains(text, "Done. user_turns=1") || !strings.Contains(w.transcript(r.ID), text) {
		w.Errorf("the result is %q, the transcript\n%s", text, w.transcript(r.ID))
	}
	events := w.events(r.ID)
	var last stint.CompleteData
	installation.Check(w, json.Unmarshal(events[len(events)-1].Data, &last))
	if string(last.Usage) != string(r.Usage) || string(last.Result) != string(r.Result) {
		w.Errorf("complete has the usage %s and the result %s, the run %s and %s", last.Usage, last.Result, r.Usage, r.Result)
	}
	calls := int64(len(w.model.Requests()))
	want := stint.Tokens{InputTokens: 100 * calls, OutputTokens: 20 * calls, CacheReadTokens: 10 * calls, ModelCalls: calls}
	u := w.usage(r)
	if d := cmp.Diff(want, u.Tokens); d != "" {
		w.Errorf("usage of %d calls (-want +got):\n%s", calls, d)
	}
	if d := cmp.Diff(map[string]stint.Tokens{model: want}, u.Models); d != "" {
		w.Errorf("usage of models (-want +got):\n%s", d)
	}
}

func (w *tenant) usage(r *stint.Run) (u stint.Usage) {
	w.Helper()
	if len(r.Usage) == 0 {
		w.Fatalf("%s has no usage", r.ID)
	}
	installation.Check(w, json.Unmarshal(r.Usage, &u))
	return u
}

// checkLogs checks that the network log contains each model call, and that the agent
// log contains native output of the agent.
func (w *tenant) checkLogs(r *stint.Run) {
	w.Helper()
	posts := 0
	for _, e := range w.logs(r.ID, stint.LogNetwork) {
		if e.Metadata["method"] == "POST" && e.Metadata["rule"] == "provider" && e.Metadata["status"] == 200.0 {
			posts++
		}
	}
	if want := len(w.model.Requests()); posts != want {
		w.Errorf("the log has %d model calls, the model %d; %s", posts, want, w.story(r.ID))
	}
	native := slices.ContainsFunc(w.logs(r.ID, stint.LogAgent), func(e stint.LogEntry) bool { return e.Metadata["native"] == true })
	if !native {
		w.Errorf("the agent log is empty; %s", w.story(r.ID))
	}
}
