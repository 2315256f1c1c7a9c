package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/config"
)

func (a *app) runs() *cobra.Command {
	return a.parent("runs", "List, show, and cancel runs", a.runsList(), a.runsShow(), a.runsCancel(), a.runsEvents(), a.logs(), a.runsMetrics())
}

func (a *app) runsList() *cobra.Command {
	var agent, session, since, until string
	var statuses, metadata []string
	var limit int
	c := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: exactly(), Aliases: []string{"ls"}}
	flags := c.Flags()
	flags.StringSliceVar(&statuses, "status", nil, "only runs that are pending, running, completed, failed, timeout or cancelled (repeatable, or separated by commas)")
	flags.StringVar(&agent, "agent", "", "only runs of this agent (name or ID)")
	flags.StringVar(&session, "session", "", "only runs of this session")
	flags.StringVar(&since, "since", "", "only runs created since: a time, or a duration ago such as 2h")
	flags.StringVar(&until, "until", "", "only runs created until: a time, or a duration ago")
	flags.StringArrayVar(&metadata, "metadata", nil, "only runs with the label K=V (repeatable)")
	flags.IntVar(&limit, "limit", 20, "maximum number of runs; 0 for all")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, _ []string) error {
		f := client.RunFilter{SessionID: session, PageSize: limit}
		for _, status := range statuses {
			if f.Statuses = append(f.Statuses, stint.Status(status)); !stint.Status(status).Valid() {
				return usage(c, "--status: '%s' is not one of pending, running, completed, failed, timeout, cancelled", status)
			}
		}
		if limit < 0 {
			return usage(c, "--limit: %d is negative", limit)
		}
		var err error
		if f.Since, err = a.parseTime(since); err != nil {
			return usage(c, "--since: %s", err)
		}
		if f.Until, err = a.parseTime(until); err != nil {
			return usage(c, "--until: %s", err)
		}
		if f.Metadata, err = pairs(metadata, nil); err != nil {
			return usage(c, "--metadata: %s", err)
		}
		return a.listRuns(ctx, f, agent, limit)
	})
	return c
}

func (a *app) listRuns(ctx context.Context, f client.RunFilter, agent string, limit int) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if agent != "" {
		found, err := findAgent(ctx, c, agent)
		if err != nil {
			return err
		}
		f.AgentID = found.ID
	}
	if f.SessionID != "" {
		if f.SessionID, err = resolve(ctx, c, stint.PrefixSession, f.SessionID); err != nil {
			return err
		}
	}
	runs := c.Runs.List(ctx, f)
	if f.SessionID != "" {
		runs = orError(runs, func() error {
			_, err := c.Sessions.Get(ctx, f.SessionID)
			return err
		})
	}
	none, conditions := "No runs.", f
	if conditions.PageSize = 0; !reflect.ValueOf(conditions).IsZero() {
		none = "No runs match."
	}
	return printList(a, runs, limit, none, "ID AGENT STATUS CREATED TOOK PROMPT", func(r stint.RunSummary) []string {
		return []string{r.ID, r.AgentName, string(r.Status), r.CreatedAt.String(), a.runDuration(r), clip(r.Prompt, 40)}
	})
}

// runDuration returns how long a run took or has been running. It returns "-" if the
// run has not started.
func (a *app) runDuration(r stint.RunSummary) string {
	if r.StartedAt == nil {
		return "-"
	}
	end := a.Now()
	if r.CompletedAt != nil {
		end = r.CompletedAt.Time
	}
	return durationText(max(0, end.Sub(r.StartedAt.Time).Milliseconds()))
}

// parseTime parses a time, a date, or a duration before now. It returns nil for an
// empty text.
func (a *app) parseTime(text string) (*stint.Time, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := config.ParseDuration(text); err == nil {
		t := stint.TimeOf(a.Now().Add(-d))
		return &t, nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		at := stint.TimeOf(t)
		return &at, nil
	}
	t, err := stint.ParseTime(text)
	if err != nil {
		return nil, fmt.Errorf("'%s' is not a time such as 2026-01-02T15:04:05Z, date or duration such as 2h", text)
	}
	return &t, nil
}

func (a *app) runsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show RUN", Short: "Show a run", Args: exactly("RUN"),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := resolve(ctx, c, stint.PrefixRun, args[0])
			if err != nil {
				return err
			}
			run, err := c.Runs.Get(ctx, id)
			if err != nil {
				return err
			}
			return a.showRun(run)
		}),
	}
}

// attemptsText returns a line for each attempt of a run with several.
func attemptsText(run *stint.Run) string {
	if len(run.Attempts) == 0 || len(run.Attempts) == 1 && run.Status != stint.Pending {
		return ""
	}
	var out strings.Builder
	for _, at := range run.Attempts {
		state := "running"
		if at.EndedAt != nil {
			state = "completed"
			if at.StatusReason != nil {
				state = string(*at.StatusReason)
			}
			state += " after " + durationText(at.EndedAt.Sub(at.StartedAt.Time).Milliseconds())
		}
		fmt.Fprintf(&out, "  %d  %s  %s  %s\n", at.Number, at.StartedAt, at.WorkerID, state)
	}
	return out.String()
}

// queueText returns why a run is pending, with its position if it has one.
func queueText(q *stint.Queue) string {
	switch {
	case q == nil:
		return ""
	case q.Position == nil:
		return fmt.Sprintf("%s: %s", q.Reason, q.Message)
	}
	return fmt.Sprintf("position %d, %s: %s", *q.Position, q.Reason, q.Message)
}

// placeText returns the worker of a run with the isolator and the image of its sandbox.
func placeText(run *stint.Run) string {
	text := deref(run.Worker)
	if run.Isolation != nil {
		text += " (" + *run.Isolation
		if run.ImageDigest != nil {
			text += ", image " + *run.ImageDigest
		}
		text += ")"
	}
	return text
}

func (a *app) showRun(run *stint.Run) error {
	artifact := deref(run.ArtifactName)
	if run.ArtifactVersion != nil {
		artifact += "@" + *run.ArtifactVersion
	}
	fields := []string{
		"id", run.ID, "agent", run.AgentName + " (" + run.AgentID + ")", "status", string(run.Status) + statusDetails(run),
		"queue", queueText(run.Queue), "worker", placeText(run), "prompt", clip(run.Prompt, 200), "artifact", artifact, "replaced", headMoveText(run), "volumes", pairsText(run.Volumes, "@"),
		"checkpoint", deref(run.CheckpointID), "session", run.SessionID, "parent", deref(run.ParentRunID),
		"metadata", pairsText(run.Metadata, "="), "usage", usageText(run.Usage),
		"created", run.CreatedAt.String(), "created by", deref(run.CreatedBy), "started", text(run.StartedAt), "completed", text(run.CompletedAt),
	}
	if err := a.printOne(run, fields...); err != nil || a.json {
		return err
	}
	message := deref(run.StatusMessage)
	if run.Error != nil {
		message = "" // the error begins with it
	}
	for _, block := range [][2]string{{"error", deref(run.Error)}, {"message", message}, {"attempts", attemptsText(run)}, {"result", resultText(run.Result)}} {
		if block[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.Stdout, "%s\n%s\n", block[0], strings.TrimRight(block[1], "\n")); err != nil {
			return err
		}
	}
	return nil
}

// usageText returns a run's model usage on one line, or "" if it is unknown.
func usageText(raw json.RawMessage) string {
	var u *stint.Usage
	if json.Unmarshal(raw, &u) != nil || u == nil {
		return ""
	}
	out := count(u.InputTokens, "token") + " in"
	if u.CacheReadTokens > 0 {
		out += fmt.Sprintf(" (%d of them from the cache)", u.CacheReadTokens)
	}
	out += fmt.Sprintf(", %d out, %s", u.OutputTokens, count(u.ModelCalls, "call"))
	if u.CostUSD != nil {
		out += fmt.Sprintf(", $%.4f", *u.CostUSD)
	}
	return out
}

// resultText returns a result as text. In a string, spaces replace control characters
// other than newlines and tabs. The text of any other value is its JSON.
func resultText(raw json.RawMessage) string {
	var message *string
	switch err := json.Unmarshal(raw, &message); {
	case err != nil && len(raw) > 0:
		return string(raw)
	case message == nil:
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, *message)
}

// pairsText formats a map as a sorted, comma-separated list of pairs. between is the
// text between a key and its value.
func pairsText(m map[string]string, between string) string {
	words := make([]string, 0, len(m))
	for k, v := range m {
		words = append(words, k+between+v)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func (a *app) runsEvents() *cobra.Command {
	var after int64
	var recorded bool
	c := &cobra.Command{
		Use:   "events RUN",
		Short: "Follow the events of a run from the start to the end",
		Long: `Print the past events of a run, and then new ones until the run has ended, also
after the connection was interrupted. With --json, each line is one event.`,
		Args: exactly("RUN"),
	}
	a.rawFlag(c)
	c.Flags().Int64Var(&after, "after", 0, "begin after the event with this ID")
	c.Flags().BoolVar(&recorded, "recorded", false, "stop after the recorded events")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		if after < 0 {
			return usage(c, "--after: %d is negative", after)
		}
		server, err := a.follower()
		if err != nil {
			return err
		}
		id, err := resolve(ctx, server, stint.PrefixRun, args[0])
		if err != nil {
			return err
		}
		if !recorded {
			return a.printEvents(ctx, server, id, after)
		}
		p := printer{a: a, run: id, quiet: !a.verbose && !a.IsTerminal(stderr)}
		for event, err := range server.Runs.RecordedEvents(ctx, id, after) {
			if err == nil && a.json {
				err = a.printJSON(event)
			} else if err == nil {
				err = p.print(event)
			}
			if err != nil {
				return err
			}
		}
		p.endLine()
		return nil
	})
	return c
}

func (a *app) runsMetrics() *cobra.Command {
	return &cobra.Command{
		Use: "metrics RUN", Short: "Show the CPU, memory, and disk use of a run", Args: exactly("RUN"),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := resolve(ctx, c, stint.PrefixRun, args[0])
			if err != nil {
				return err
			}
			m, err := c.Runs.Metrics(ctx, id)
			if err != nil {
				return err
			}
			return a.printMetrics(m)
		}),
	}
}

func (a *app) printMetrics(m *stint.Metrics) error {
	if a.json {
		return a.printJSON(m)
	}
	err := printList(a, withoutErrors(m.Data), 0, "No measurements.", "TIME CPU MEMORY-MB OF DISK-MB OF", func(s stint.MetricsSample) []string {
		return []string{
			s.Timestamp.String(), fmt.Sprintf("%.1f%%", s.CPUPercent),
			fmt.Sprint(s.MemoryUsedMb), fmt.Sprint(s.MemoryTotalMb), fmt.Sprint(s.DiskUsedMb), fmt.Sprint(s.DiskTotalMb),
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "mean CPU %.1f%%, most memory %d MB\n", m.Summary.AvgCPUPercent, m.Summary.MaxMemoryUsedMb)
	return err
}
