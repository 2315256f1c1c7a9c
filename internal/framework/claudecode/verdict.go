package claudecode

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/providererror"
)

// result is the agent's final message.
type result struct {
	subtype  string
	failed   bool
	status   int // HTTP status of the provider; 0 if it answered
	text     string
	errors   []string
	terminal string
}

// end handles the final message, which has the usage of the whole run.
func (d *decoder) end(s *framework.Step, subtype string) {
	s.Ended, s.CloseStdin = true, true
	r := &result{subtype: subtype, failed: string(d.Line.Raw("is_error")) == "true", text: d.Line.Text("result"), terminal: d.Line.Text("terminal_reason")}
	d.Line.Decode("api_error_status", &r.status)
	d.Line.Decode("errors", &r.errors)
	d.result = r
	if usage := d.total(); usage != nil {
		d.usage = usage.Clone()
		s.Usage = usage
	}
}

// total returns the usage in the final message, including side tasks, or nil if
// nothing was used.
func (d *decoder) total() *stint.Usage {
	var models map[string]struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cacheReadInputTokens"`
		CacheWrite int64 `json:"cacheCreationInputTokens"`
	}
	if !d.Line.Decode("modelUsage", &models) || len(models) == 0 {
		return nil
	}
	var u stint.Usage
	for _, name := range slices.Sorted(maps.Keys(models)) {
		m := models[name]
		t := tokens{m.Input, m.Output, m.CacheRead, m.CacheWrite}.counted()
		t.ModelCalls = d.calls[name]
		if len(models) == 1 {
			t.ModelCalls = d.turns
		}
		u.Count(name, t)
	}
	u.ModelCalls = max(u.ModelCalls, d.turns)
	var cost float64
	if d.Line.Decode("total_cost_usd", &cost) {
		u.CostUSD, u.CostSource = &cost, stint.CostByAgent
	}
	return &u
}

// Verdict depends on the final message. Without one the run failed, whatever
// the exit code.
func (d *decoder) Verdict(exitCode int) framework.Verdict {
	r := d.result
	switch {
	case r == nil:
		return framework.Verdict{Message: d.noResult(exitCode), Final: d.last}
	case r.subtype == "success" && !r.failed:
		final := r.text
		if final == "" {
			final = d.last
		}
		return framework.Verdict{Completed: true, Final: final}
	case r.subtype == "success":
		return framework.Verdict{Message: providererror.Failure(&d.in, keyName, r.status, r.text), Final: d.last}
	case r.subtype == "error_max_turns":
		return framework.Verdict{Reason: stint.ReasonBudget, Final: d.last, Message: fmt.Sprintf("The agent was not done after %d turns, which is all that it may take. Raise limits.maxTurns in the agent's definition, or ask for less in one run.", d.in.Limits.MaxTurns)}
	case r.subtype == "error_max_budget_usd":
		return framework.Verdict{Reason: stint.ReasonBudget, Final: d.last, Message: fmt.Sprintf("The agent was not done after spending $%g, which is all that it may. Raise limits.maxCostUsd in the agent's definition, or ask for less in one run.", d.in.Limits.MaxCostUSD)}
	}
	return framework.Verdict{Message: d.turnFailure(), Final: d.last}
}

// turnFailure returns the message for a turn that ended early.
func (d *decoder) turnFailure() string {
	text := strings.Join(d.result.errors, " ")
	switch {
	case strings.Contains(text, "No conversation found"):
		return lostConversation
	case strings.HasPrefix(d.result.terminal, "aborted"):
		return "The agent was asked to end and broke off its turn."
	case text == "":
		text = d.result.text
	}
	return providererror.Failure(&d.in, keyName, 0, text)
}

const lostConversation = "The agent cannot find the conversation of this session. Begin a new session, or resume an earlier checkpoint."

// noResult returns the message for a run without a final message.
func (d *decoder) noResult(exitCode int) string {
	said := d.Tail()
	why := ""
	switch {
	case strings.Contains(said, "No conversation found"):
		return lostConversation
	case strings.Contains(said, "unknown option"):
		why = " The installed Claude Code does not know an option that it is given; update it (" + Framework{}.Info().Install + ")."
	case strings.Contains(said, "already in use"):
		why = " Its conversation is in use; start the run again."
	case strings.Contains(said, "root/sudo"):
		why = " It refuses to run as root; update it (" + Framework{}.Info().Install + ")."
	case exitCode == 0 && !d.Wrote:
		why = " It wrote nothing at all, as it does where it cannot write to its folder for temporary files (TMPDIR)."
	}
	return fmt.Sprintf("The agent ended without a result (exit code %d).%s", exitCode, why)
}
