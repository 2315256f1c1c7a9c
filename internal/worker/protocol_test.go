package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/worker"
)

func events(all ...stint.OutputData) framework.Step { return framework.Step{Events: all} }

const scriptedDefinition = `{"framework":"acp","command":["x"]}`

// newScriptedWorld returns a world with the framework p and agents that execute script.
func newScriptedWorld(t *testing.T, p *scriptedFramework, script fake.Script, more ...change) *world {
	return newWorld(t, script, append([]change{withFramework(p)}, more...)...)
}

func (w *world) run(definition string, n stint.NewRun) stint.Run {
	w.t.Helper()
	w.agent(definition)
	n.Agent = "agent"
	return w.ended(w.create(n).ID)
}

// TestSecretsAreMaskedInItems checks that a secret is masked in events and log entries if
// two pieces of a message each contain a part of it, or if it is in the final message, a
// tool call, a tool result, or a plan.
func TestSecretsAreMaskedInItems(t *testing.T) {
	t.Parallel()
	const hidden = "hunter-two-hunter"
	p := &scriptedFramework{native: true, verdict: framework.Verdict{Completed: true, Final: "it was " + hidden}}
	w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		emit(b.Stdout, events(transcript.Delta(stint.ItemMessage, "m1", "I know "+hidden[:6])))
		emit(b.Stdout, events(transcript.Delta(stint.ItemMessage, "m1", hidden[6:]+" and tell")))
		emit(b.Stdout, events(transcript.Delta(stint.ItemMessage, "m2", "nothing")))
		emit(b.Stdout, events(
			transcript.Call(stint.ToolItem{ID: "t1", Name: "Bash", Input: json.RawMessage(`{"command":"echo ` + hidden + `","n":1}`)}),
			transcript.Result(stint.ToolItem{ID: "t1", Name: "Bash"}, hidden+"\n"),
			transcript.Plan([]stint.PlanEntry{{Content: "use " + hidden, Status: "pending"}}),
		))
		emit(b.Stdout, framework.Step{Ended: true})
		return sandbox.Exit{}
	})
	run := w.run(scriptedDefinition, stint.NewRun{Secrets: map[string]string{"PASSWORD": hidden}})
	if run.Status != stint.Completed {
		t.Fatalf("the run ended %s: %v", run.Status, *run.Error)
	}
	want := "I know *** and tellnothing$ echo ***\n***\n[ ] use ***\n"
	if got := w.transcript(run.ID); got != want {
		t.Errorf("the transcript is %q, want %q", got, want)
	}
	whole, err := json.Marshal(w.events(run.ID))
	check(t, err)
	if strings.Contains(string(whole), hidden) {
		t.Errorf("a secret is in the events: %s", whole)
	}
	logs, _, err := w.feed.Logs(t.Context(), run.ID, feed.LogQuery{Limit: 100})
	check(t, err)
	native := 0
	for _, l := range logs {
		if l.Metadata["native"] == true {
			native++
		}
		if strings.Contains(l.Message, hidden) {
			t.Errorf("a secret is in the log: %s", l.Message)
		}
	}
	if native != 5 {
		t.Errorf("%d lines of the agent's protocol are logged, want 5", native)
	}
}

// TestSecretsAreMaskedBeforeTruncation checks that no part of a secret is stored if a long
// text is truncated in the middle of the secret.
func TestSecretsAreMaskedBeforeTruncation(t *testing.T) {
	t.Parallel()
	const hidden = "hunter-two-hunter"
	command := "echo " + strings.Repeat("a", 188) + " " + hidden
	gave := strings.Repeat("b", transcript.MaxResult*3/4-5) + hidden + strings.Repeat("b", transcript.MaxResult) + hidden + strings.Repeat("b", transcript.MaxResult/4-5)
	said := framework.Step{Events: []stint.OutputData{transcript.Message("m", hidden)}}
	line, err := json.Marshal(said)
	check(t, err)
	const logged = 64 << 10 // maximum bytes of a line in the log
	said.Events[0].Content = strings.Repeat("c", logged-5-strings.Index(string(line), hidden)) + hidden
	p := &scriptedFramework{native: true, verdict: framework.Verdict{Completed: true}}
	w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		emit(b.Stdout, events(
			transcript.Call(stint.ToolItem{ID: "t1", Name: "Bash", Input: json.RawMessage(`{"command":"` + command + `"}`)}),
			transcript.Result(stint.ToolItem{ID: "t1", Name: "Bash"}, gave),
		))
		emit(b.Stdout, said)
		emit(b.Stdout, framework.Step{Ended: true})
		return sandbox.Exit{}
	})
	run := w.run(scriptedDefinition, stint.NewRun{Secrets: map[string]string{"PASSWORD": hidden}})
	whole, err := json.Marshal(w.events(run.ID))
	check(t, err)
	logs, _, err := w.feed.Logs(t.Context(), run.ID, feed.LogQuery{Limit: 100})
	check(t, err)
	entries, err := json.Marshal(logs)
	check(t, err)
	for what, text := range map[string]string{"events": string(whole), "logs": string(entries)} {
		if strings.Contains(text, "hunt") || strings.Contains(text, "nter") {
			t.Errorf("a part of the secret is in the %s", what)
		}
	}
	if !strings.Contains(string(whole), "bytes left out") || !strings.Contains(string(entries), `"truncated":true`) {
		t.Error("nothing was truncated")
	}
}

// TestTerminalEvent checks that an agent that does not exit after its terminal event is
// killed, and that the verdict of the framework determines the status of the run.
func TestTerminalEvent(t *testing.T) {
	t.Parallel()
	p := &scriptedFramework{verdict: framework.Verdict{Completed: true, Final: "all done"}}
	w := newScriptedWorld(t, p, func(ctx context.Context, b *fake.Proc) sandbox.Exit {
		emit(b.Stdout, framework.Step{Ended: true})
		hang(ctx)
		return sandbox.Exit{Signal: 9, Cause: sandbox.Killed}
	}, func(c *worker.Config) { c.ExitGrace = 10 * time.Millisecond })
	run := w.run(scriptedDefinition, stint.NewRun{})
	if run.Status != stint.Completed {
		t.Errorf("the run ended %s", run.Status)
	}
}

// TestNoTerminalEvent checks a run with an agent that exits without a terminal event: the
// verdict of the framework determines the status, and the error of the run contains the
// message of the verdict and the last output on standard error.
func TestNoTerminalEvent(t *testing.T) {
	t.Parallel()
	p := &scriptedFramework{verdict: framework.Verdict{Message: "The agent ended without a result."}}
	w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		write(b.Stderr, "panic: at the disco\n")
		return sandbox.Exit{}
	})
	run := w.run(scriptedDefinition, stint.NewRun{})
	if run.Status != stint.Failed || *run.Error != "The agent ended without a result.\npanic: at the disco" {
		t.Errorf("the run ended %s: %v", run.Status, run.Error)
	}
}

// TestReplies checks that the agent reads the bytes that a decoder sends from standard
// input, and that standard input is closed when the decoder requests it.
func TestReplies(t *testing.T) {
	t.Parallel()
	p := &scriptedFramework{plan: framework.Plan{Stdin: []byte("begin\n"), KeepStdinOpen: true}, verdict: framework.Verdict{Completed: true}}
	w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		in := bufio.NewScanner(b.Stdin)
		for in.Scan() {
			switch in.Text() {
			case "begin":
				emit(b.Stdout, framework.Step{Send: []byte("again\n")})
			case "again":
				emit(b.Stdout, framework.Step{Events: []stint.OutputData{transcript.Message("", "heard again")}, Send: []byte("last\n"), CloseStdin: true})
			case "last":
				emit(b.Stdout, events(transcript.Message("", "heard the last")))
			}
		}
		emit(b.Stdout, framework.Step{Ended: true})
		return sandbox.Exit{}
	})
	run := w.run(scriptedDefinition, stint.NewRun{})
	if got, want := w.transcript(run.ID), "heard again\nheard the last\n"; got != want {
		t.Errorf("the agent read %q, want %q", got, want)
	}
}

// TestInterrupt checks that the agent of a cancelled run first reads the interrupt of the
// decoder from standard input, before the worker sends a signal.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	p := &scriptedFramework{plan: framework.Plan{KeepStdinOpen: true}, ask: "please end"}
	began, asked := make(chan struct{}), make(chan string, 1)
	w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		close(began)
		in := bufio.NewScanner(b.Stdin)
		in.Scan()
		asked <- in.Text()
		return sandbox.Exit{}
	}, func(c *worker.Config) { c.CancelGrace = maxWait })
	w.agent(scriptedDefinition)
	id := w.create(stint.NewRun{Agent: "agent"}).ID
	<-began
	_, err := w.runs.Cancel(t.Context(), w.caller, id)
	check(t, err)
	if got := <-asked; got != "please end" {
		t.Errorf("the interrupt is %q", got)
	}
}

func TestAgentThatDoesNotRead(t *testing.T) {
	t.Parallel()
	p := &scriptedFramework{plan: framework.Plan{KeepStdinOpen: true, Stdin: make([]byte, 16<<20)}} // exactly the maximum of unread bytes
	w := newScriptedWorld(t, p, func(ctx context.Context, b *fake.Proc) sandbox.Exit {
		emit(b.Stdout, framework.Step{Send: []byte("one more")})
		hang(ctx)
		return sandbox.Exit{Signal: 9, Cause: sandbox.Killed}
	})
	run := w.run(scriptedDefinition, stint.NewRun{})
	if run.Status != stint.Failed || !strings.Contains(*run.Error, "does not read") {
		t.Errorf("the run ended %s: %v", run.Status, run.Error)
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	used := func(in, out int64) framework.Step {
		u := &stint.Usage{}
		u.Count("m", stint.Tokens{InputTokens: in, OutputTokens: out, ModelCalls: 1})
		return framework.Step{Usage: u}
	}
	tests := map[string]struct {
		limits string
		steps  []framework.Step
		near   string
		over   string
	}{
		"tokens": {`{"maxTokens":1000}`, []framework.Step{used(700, 150), used(1000, 1)}, "850 of 1000 tokens", "1001 of 1000 tokens"},
		"turns":  {`{"maxTurns":5}`, []framework.Step{{Turns: 4}, {Turns: 6}}, "4 of 5 turns", "6 of 5 turns"},
		"cost":   {`{"maxCostUsd":0.01}`, []framework.Step{used(900, 0), used(1000, 1)}, "$0.0090 of $0.0100", "$0.0100 of $0.0100"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := make(chan struct{})
			p := &scriptedFramework{verdict: framework.Verdict{Completed: true}}
			w := newScriptedWorld(t, p, func(ctx context.Context, b *fake.Proc) sandbox.Exit {
				for i, s := range tt.steps {
					if i > 0 {
						<-next
					}
					emit(b.Stdout, s)
				}
				hang(ctx)
				return sandbox.Exit{Signal: 9, Cause: sandbox.Killed}
			})
			w.agent(`{"framework":"acp","command":["x"],"limits":` + tt.limits + `,"provider":{"type":"offline","prices":{"m":{"input":10,"output":10}}}}`)
			id := w.create(stint.NewRun{Agent: "agent"}).ID
			w.until("a warning", func() bool { return strings.Contains(w.transcript(id), tt.near) })
			close(next)
			run := w.ended(id)
			if run.Status != stint.Failed || *run.StatusReason != stint.ReasonBudget || !strings.Contains(*run.Error, tt.over) {
				t.Errorf("the run ended %s (%v): %v", run.Status, run.StatusReason, *run.Error)
			}
			if strings.Count(w.transcript(id), "has used") != 1 {
				t.Errorf("there is not exactly one warning: %q", w.transcript(id))
			}
		})
	}
}

// TestLastCall checks that turns in the terminal event count towards the budget.
func TestLastCall(t *testing.T) {
	t.Parallel()
	w := newScriptedWorld(t, &scriptedFramework{verdict: framework.Verdict{Completed: true}}, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		emit(b.Stdout, framework.Step{Turns: 3, Ended: true})
		return sandbox.Exit{}
	})
	run := w.run(`{"framework":"acp","command":["x"],"limits":{"maxTurns":2}}`, stint.NewRun{})
	if run.Status != stint.Failed || *run.StatusReason != stint.ReasonBudget {
		t.Errorf("the run ended %s (%v)", run.Status, run.StatusReason)
	}
}

// TestIdleLimit checks that limits.idleTimeout ends a run with an inactive agent.
func TestIdleLimit(t *testing.T) {
	t.Parallel()
	w := newScriptedWorld(t, &scriptedFramework{}, func(ctx context.Context, _ *fake.Proc) sandbox.Exit {
		hang(ctx)
		return sandbox.Exit{Signal: 9, Cause: sandbox.Killed}
	})
	run := w.run(`{"framework":"acp","command":["x"],"limits":{"idleTimeout":"1s"}}`, stint.NewRun{})
	if run.Status != stint.TimedOut || *run.StatusReason != stint.ReasonIdleLimit || run.Error != nil || !strings.Contains(*run.StatusMessage, "The agent was inactive for 1s") {
		t.Errorf("the run ended %s (%v): %v, %v", run.Status, run.StatusReason, run.Error, run.StatusMessage)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	const schema = `,"output":{"schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}`
	tests := map[string]struct {
		final, output string
		status        stint.Status
		result        string
		fault         string
	}{
		"text":          {"four", "", stint.Completed, `"four"`, ""},
		"value":         {"```json\n{\"n\": 4}\n```", schema, stint.Completed, `{"n":4}`, ""},
		"no JSON":       {"four", schema, stint.Failed, "", "not a JSON value"},
		"another value": {`{"n":"four"}`, schema, stint.Failed, "", "integer"},
		"no message":    {"", schema, stint.Failed, "", "not a JSON value"},
		"no result":     {"", "", stint.Completed, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &scriptedFramework{verdict: framework.Verdict{Completed: true, Final: tt.final}}
			w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
				emit(b.Stdout, framework.Step{Ended: true})
				return sandbox.Exit{}
			})
			run := w.run(`{"framework":"acp","command":["x"]`+tt.output+`}`, stint.NewRun{})
			if run.Status != tt.status || string(run.Result) != tt.result {
				t.Errorf("the run ended %s with %s, want %s with %s", run.Status, run.Result, tt.status, tt.result)
			}
			if tt.fault != "" && !strings.Contains(*run.Error, tt.fault) {
				t.Errorf("the error is %q", *run.Error)
			}
		})
	}
}

// TestFrameworkInput checks the input of a framework's Prepare method, and that the agent
// gets the files and environment variables of the plan.
func TestFrameworkInput(t *testing.T) {
	t.Parallel()
	var in framework.Input
	p := &scriptedFramework{prepared: func(given framework.Input) { in = given }, verdict: framework.Verdict{Completed: true}}
	p.plan = framework.Plan{
		Argv: []string{"agent", "--quick"}, Env: map[string]string{"AGENT_HOME": "/x"},
		Files: []framework.File{{Path: "/home/agent/.agent/conf/a.json", Content: []byte("{}")}, {Path: "/run/stint/mcp.json", Content: []byte("[]"), Mode: 0o600}},
	}
	var home, mcp, env string
	w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		home, mcp = read(b, "/home/agent/.agent/conf/a.json"), read(b, sandbox.RunDir+"/mcp.json")
		env = strings.Join(b.Command.Env, "\n")
		return sandbox.Exit{}
	})
	p.plan.Files[1].Path = sandbox.RunDir + "/mcp.json"
	w.run(`{"framework":"acp","command":["x"],"mcpServers":{"docs":{"url":"https://docs.example.com/mcp","headers":{"Authorization":"Bearer ${{ secrets.DOCS }}","X-Tenant":"${{ vars.TENANT }}"}},"files":{"command":["serve"],"env":{"ROOT":"${{ vars.TENANT }}"}}}}`,
		stint.NewRun{Variables: map[string]string{"TENANT": "blue"}, Secrets: map[string]string{"DOCS": "sesame-sesame"}})
	want := []framework.MCPServer{
		{Name: "docs", URL: "https://docs.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer stint-brokered-DOCS", "X-Tenant": "blue"}, Env: map[string]string{}},
		{Name: "files", Command: []string{"serve"}, Headers: map[string]string{}, Env: map[string]string{"ROOT": "blue"}},
	}
	if d := cmp.Diff(want, in.MCP); d != "" {
		t.Errorf("MCP servers (-want +got):\n%s", d)
	}
	if strings.Contains(env, "sesame") || !strings.Contains(env, "DOCS=stint-brokered-DOCS") {
		t.Errorf("a brokered secret is in the environment: %q", env)
	}
	if home != "{}" || mcp != "[]" || !strings.Contains(env, "AGENT_HOME=/x") {
		t.Errorf("the files are %q and %q, the environment %q", home, mcp, env)
	}
	if got := in.Masked("open sesame-sesame"); got != "open ***" {
		t.Errorf("masked: %q", got)
	}
	if in.Prompt != "do it" || len(in.NewID) != 36 || in.Model != nil {
		t.Errorf("input %+v", in)
	}
}

// TestPlanFilesDoNotFollowLinks checks that the worker does not write a file of a plan
// through a symbolic link that an earlier run of the session left in the home folder.
func TestPlanFilesDoNotFollowLinks(t *testing.T) {
	t.Parallel()
	p := &scriptedFramework{verdict: framework.Verdict{Completed: true}, plan: framework.Plan{Files: []framework.File{{Path: "/home/agent/.agent/conf", Content: []byte("new")}}}}
	outside := t.TempDir()
	w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
		link(b, outside, "/home/agent/.agent")
		return sandbox.Exit{}
	})
	first := w.run(scriptedDefinition, stint.NewRun{})
	second := w.ended(w.create(stint.NewRun{SessionID: first.SessionID}).ID)
	if second.Status != stint.Failed || *second.StatusReason != stint.ReasonSandboxError {
		t.Errorf("a run whose files are behind a link ended %s", second.Status)
	}
	if got := read(&fake.Proc{}, outside+"/conf"); got != "" {
		t.Errorf("it wrote %q outside of the home folder", got)
	}
}
