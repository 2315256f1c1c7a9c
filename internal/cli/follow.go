package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// errDetached reports that the user stopped following a run, which continues.
var errDetached = errors.New("detached")

// followRun prints a run's events until the run has ended, and then its summary. If
// the run did not complete, or the user stopped following it, the error is an
// exitError.
func (a *app) followRun(ctx context.Context, c *client.Client, id string, f *runFlags) error {
	following, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var watchers sync.WaitGroup
	ended := make(chan struct{})
	watchers.Go(func() { a.watchInterrupts(ctx, c, id, ended, leave) })
	err := a.printEvents(following, c, id, 0)
	close(ended)
	watchers.Wait()
	if errors.Is(err, errDetached) {
		a.note("%s continues. Follow it again with: stint runs events %s", id, id)
		return exitError(exitCancelled)
	}
	if err != nil {
		return fmt.Errorf("the stream of %s was lost, and the run may continue (follow it again with 'stint runs events %s'): %w", id, id, err)
	}
	return a.finishFollowing(ctx, c, id, f)
}

// finishFollowing prints how a run ended, and pulls its artifact if requested. The
// exit code of the run takes precedence over an error of the pull.
func (a *app) finishFollowing(ctx context.Context, c *client.Client, id string, f *runFlags) error {
	var run *stint.Run
	err := a.untilInterrupted(ctx, func(ctx context.Context) (err error) {
		if run, err = c.Runs.Get(ctx, id); err != nil {
			return err
		}
		run = awaitCheckpoint(ctx, c, run)
		a.summary(run)
		a.explainCancelled(run)
		if f.pull == "" {
			return nil
		}
		return a.pullArtifact(ctx, c, run, f.pull)
	})
	if run == nil {
		return err
	}
	end := exitOf(run, f.exitCode)
	if end == nil {
		return err
	}
	if err != nil {
		a.note("stint: %s", err)
	}
	return end
}

// watchInterrupts handles interrupts while a run is followed, until ended is closed.
// After the first interrupt it asks whether to cancel the run; without a terminal it
// cancels the run at once. After the second interrupt, or if the terminal was closed,
// it calls leave with errDetached and returns.
func (a *app) watchInterrupts(ctx context.Context, c *client.Client, id string, ended <-chan struct{}, leave context.CancelCauseFunc) {
	var answers <-chan bool
	for interrupts := 0; ; {
		select {
		case <-ended:
			return
		case yes := <-answers:
			if answers = nil; yes {
				a.cancelFollowed(ctx, c, id)
			}
		case request := <-a.Interrupts:
			if interrupts++; interrupts > 1 || request == HangUp {
				leave(errDetached)
				return
			}
			if a.IsTerminal(stdin) && a.IsTerminal(stderr) {
				answers = a.ask("Cancel " + id + "? y cancels it, Enter continues, Ctrl-C leaves it running: ")
			} else {
				a.cancelFollowed(ctx, c, id)
			}
		}
	}
}

// ask prints a question and returns a channel for the answer. If the user enters no
// line, the goroutine that reads the answer ends with the program.
func (a *app) ask(question string) <-chan bool {
	a.flush() // ends colours of the agent
	fmt.Fprint(a.Stderr, "\n"+question)
	answer := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer means no
		answer <- strings.EqualFold(strings.TrimSpace(line), "y") || strings.EqualFold(strings.TrimSpace(line), "yes")
	}()
	return answer
}

func (a *app) cancelFollowed(ctx context.Context, c *client.Client, id string) {
	a.note("Cancelling %s …", id)
	if _, err := c.Runs.Cancel(ctx, id); err != nil && !client.IsCode(err, stint.CodeInvalidState) {
		a.note("stint: cancel %s: %s", id, err)
	}
}

// printEvents prints the events of a run that follow the event with number after.
func (a *app) printEvents(ctx context.Context, c *client.Client, id string, after int64) error {
	p := printer{a: a, run: id, quiet: !a.verbose && !a.IsTerminal(stderr)}
	for event, err := range c.Runs.Events(ctx, id, after) {
		if err == nil {
			err = p.print(event)
		}
		if err != nil {
			p.endLine()
			return err
		}
	}
	p.endLine()
	return nil
}

// printer prints the events of a run.
type printer struct {
	a     *app
	run   string
	quiet bool // do not print status changes
	open  bool // the last output on a terminal has no line end
	last  *stint.Item
}

// eventLine is the JSON form of an event in the output.
type eventLine struct {
	RunID string          `json:"runId"`
	ID    string          `json:"id"`
	Type  stint.EventType `json:"type"`
	Data  json.RawMessage `json:"data"`
}

func (p *printer) print(e stint.Event) error {
	if p.a.json {
		return p.a.printJSON(eventLine{p.run, fmt.Sprint(e.Seq), e.Type, e.Data})
	}
	switch e.Type {
	case stint.EventOutput:
		return p.output(e.Data)
	case stint.EventStatus:
		return p.status(e.Data)
	case stint.EventError:
		var d stint.ErrorData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return fmt.Errorf("read event %d: %w", e.Seq, err)
		}
		// Further lines of the message repeat the end of the agent's output.
		sentence, _, _ := strings.Cut(d.Message, "\n")
		p.endLine()
		p.a.note("%s", p.a.colour(stderr, red, sentence))
	}
	return nil
}

func (p *printer) output(data json.RawMessage) error {
	var d stint.OutputData
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	to, fd := p.a.Stdout, stdout
	if d.Stream == "stderr" {
		to, fd = p.a.Stderr, stderr
	}
	if !continuesLine(p.last, d.Item) {
		p.endLine()
	}
	if _, err := io.WriteString(to, p.styledText(fd, &d)); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if p.a.IsTerminal(fd) && d.Content != "" {
		p.open, p.last = !strings.HasSuffix(d.Content, "\n"), d.Item
	}
	return nil
}

// continuesLine reports whether an output continues the line of the previous output.
// This is so if both are plain text, or if both are pieces of the same message.
func continuesLine(before, now *stint.Item) bool {
	if before == nil || now == nil {
		return before == now
	}
	return now.Delta && before.Kind == now.Kind && before.MessageID == now.MessageID
}

// styledText returns the text of an output. On a terminal, reasoning and tools are
// dimmed, and notices are yellow.
func (p *printer) styledText(fd int, d *stint.OutputData) string {
	text := strings.TrimSuffix(d.Content, "\n")
	if d.Item == nil || text == "" {
		return d.Content
	}
	code := ""
	switch d.Item.Kind {
	case stint.ItemReasoning, stint.ItemToolCall, stint.ItemToolResult:
		code = faint
	case stint.ItemNotice:
		code = yellow
	default:
		return d.Content
	}
	return p.a.colour(fd, code, text) + d.Content[len(text):]
}

func (p *printer) status(data json.RawMessage) error {
	var d stint.StatusData
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if d.Note != "" { // printed even if the output is not a terminal
		p.endLine()
		p.a.note("%s", p.a.colour(stderr, yellow, plain(d.Note)))
	}
	if !p.quiet && !d.Status.Final() {
		p.endLine()
		p.a.note("%s %s", p.a.colour(stderr, faint, p.run), p.a.colour(stderr, statusColour(d.Status), string(d.Status)))
	}
	return nil
}

// endLine ends an open line, colours, and styles on the terminal.
func (p *printer) endLine() {
	if p.open {
		fmt.Fprintln(p.a.Stderr)
		p.open = false
	}
	p.a.flush()
}

// summary prints on standard error how a run ended and what it produced, unless
// --json is set.
func (a *app) summary(run *stint.Run) {
	if a.json {
		return
	}
	status := a.colour(stderr, statusColour(run.Status), string(run.Status)) + statusDetails(run)
	lines := []string{"run", run.ID, "status", status}
	if run.ArtifactName != nil && run.ArtifactVersion != nil {
		lines = append(lines, "artifact", *run.ArtifactName+"@"+*run.ArtifactVersion)
	}
	if run.Status == stint.Cancelled { // other messages were printed as error events
		lines = append(lines, "message", deref(run.StatusMessage))
	}
	if run.Attempt > 1 {
		lines = append(lines, "attempts", fmt.Sprint(run.Attempt))
	}
	lines = append(lines, "checkpoint", deref(run.CheckpointID), "session", run.SessionID, "usage", usageText(run.Usage))
	for i := 0; i < len(lines); i += 2 {
		if lines[i+1] != "" {
			a.note("%-11s %s", lines[i], lines[i+1])
		}
	}
	if moved := headMoveText(run); moved != "" {
		a.note("%s", a.colour(stderr, yellow, moved))
	}
}

// headMoveText says which version the run's version replaced as the current one, if it was
// not made from it.
func headMoveText(run *stint.Run) string {
	m := run.HeadMovedFrom
	if m == nil || run.ArtifactName == nil || run.ArtifactVersion == nil {
		return ""
	}
	text := *run.ArtifactName + "@" + shortVersion(*run.ArtifactVersion) + " is now current; "
	if m.SessionID == nil {
		return text + "it does not contain " + shortVersion(m.VersionID) + ", which was current before."
	}
	return text + "session " + *m.SessionID + " is at " + shortVersion(m.VersionID) + "."
}

// statusDetails returns the status reason (except stint.ReasonExitCode), the exit
// code, and the duration of a run, as far as they are known.
func statusDetails(run *stint.Run) string {
	var why []string
	if run.StatusReason != nil && *run.StatusReason != "" && *run.StatusReason != stint.ReasonExitCode {
		why = append(why, string(*run.StatusReason))
	}
	if run.ExitCode != nil {
		why = append(why, fmt.Sprintf("exit code %d", *run.ExitCode))
	}
	out := ""
	if len(why) > 0 {
		out = " (" + strings.Join(why, ", ") + ")"
	}
	if run.ExecutionTimeMs != nil {
		out += " after " + durationText(*run.ExecutionTimeMs)
	}
	return out
}
