package agents_test

import (
	"strings"

	"github.com/stint-dev/stint"
)

// budget checks that a run gets one warning shortly before it reaches its token budget,
// and fails when it exceeds the budget.
func budget(w *tenant) {
	w.agent("spender", object{"limits": object{"maxTokens": 1000}})
	r := w.fails(stint.NewRun{
		Agent: "spender", Prompt: "[[usage: in=400,out=50]] [[run: echo a]] [[run: echo b]] [[run: sleep 88]]",
	}, stint.ReasonBudget, "1350 of 1000 tokens", "limits.maxTokens")
	var notices []string
	for _, o := range w.outputs(r.ID) {
		if o.Item != nil && o.Item.Code == "budget" {
			notices = append(notices, o.Content)
		}
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "900 of 1000 tokens") {
		w.Errorf("the warnings are %q", notices)
	}
	if u := w.usage(r); u.Total() != 1350 || u.ModelCalls != 3 {
		w.Errorf("the usage is %+v", u.Tokens)
	}
}

// turnLimit checks that a run with a limit of two turns fails before its fourth model
// call.
func turnLimit(w *tenant) {
	w.agent("turner", nil)
	w.fails(stint.NewRun{
		Agent: "turner", Limits: &stint.Limits{MaxTurns: 2}, Prompt: "[[run: echo a]] [[run: echo b]] [[run: echo c]] [[run: sleep 88]]",
	}, stint.ReasonBudget, "turns", "limits.maxTurns")
	if n := len(w.model.Requests()); n > 3 {
		w.Errorf("the model was called %d times", n)
	}
}
