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

// end handles the final message, which has the usage of the whole run.
func (d *decoder) end(s *framework.Step, l *line) {
	s.Ended, s.CloseStdin = true, true
	d.result = l
	if usage := d.total(l); usage != nil {
		d.usage = usage.Clone()
		s.Usage = usage
	}
}

// total returns the usage in the final message, which includes side tasks, or nil
// if the message contains no usage.
func (d *decoder) total(l *line) *stint.Usage {
	if len(l.ModelUsage) == 0 {
		return nil
	}
	var u stint.Usage
	for _, name := range slices.Sorted(maps.Keys(l.ModelUsage)) {
		m := l.ModelUsage[name]
		t := tokens(m).counted()
		t.ModelCalls = d.calls[name]
		if len(l.ModelUsage) == 1 {
			t.ModelCalls = d.turns
		}
		u.Count(name, t)
	}
	u.ModelCalls = max(u.ModelCalls, d.turns)
	if l.TotalCostUSD != nil {
		u.CostUSD, u.CostSource = l.TotalCostUSD, stint.CostByAgent
	}
	return &u
}

// Verdict returns the result of the run according to the final message. Without a
// final message the run failed, even if the exit code is 0.
func (d *decoder) Verdict(exitCode int) framework.Verdict {
	r := d.result
	switch {
	case r == nil:
		return framework.Verdict{Message: d.noResult(exitCode), Final: d.last}
	case r.Subtype == "success" && !r.IsError:
		final := r.Result
		if final == "" {
			final = d.last
		}
		return framework.Verdict{Completed: true, Final: final}
	case r.Subtype == "success":
		return framework.Verdict{Message: providererror.Failure(&d.in, keyName, r.APIErrorStatus, r.Result), Final: d.last}
	case r.Subtype == "error_max_turns":
		return framework.Verdict{Reason: stint.ReasonBudget, Final: d.last, Message: fmt.Sprintf("The agent did not finish within its limit of %d turns. Raise limits.maxTurns in the agent's definition, or ask for less in one run.", d.in.Limits.MaxTurns)}
	case r.Subtype == "error_max_budget_usd":
		return framework.Verdict{Reason: stint.ReasonBudget, Final: d.last, Message: fmt.Sprintf("The agent did not finish within its limit of $%g. Raise limits.maxCostUsd in the agent's definition, or ask for less in one run.", d.in.Limits.MaxCostUSD)}
	}
	return framework.Verdict{Message: d.turnFailure(), Final: d.last}
}

// turnFailure returns the error message for a turn that ended early.
func (d *decoder) turnFailure() string {
	text := strings.Join(d.result.Errors, " ")
	switch {
	case strings.Contains(text, "No conversation found"):
		return lostConversation
	case strings.HasPrefix(d.result.TerminalReason, "aborted"):
		return "The agent was interrupted during its turn."
	case text == "":
		text = d.result.Result
	}
	return providererror.Failure(&d.in, keyName, 0, text)
}

const lostConversation = "The agent cannot find the conversation of this session. Begin a new session, or resume an earlier checkpoint."

// noResult returns the error message for a run without a final message.
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
		why = " It wrote nothing at all, which happens if it cannot write to its temporary folder (TMPDIR)."
	}
	return fmt.Sprintf("The agent ended without a result (exit code %d).%s", exitCode, why)
}
