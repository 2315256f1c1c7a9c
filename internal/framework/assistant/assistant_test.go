package assistant_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/assistant"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
)

func input() framework.Input {
	return framework.Input{
		Definition: &stint.Definition{Framework: "assistant", Model: "m-1", Instructions: "Be kind.", Volumes: map[string]stint.VolumeMount{"b": {}, "a": {Path: "/data", Writable: true}}},
		Prompt:     "Do\nit.", RunDir: "/run/stint", Home: "/home/agent", WorkDir: "/workspace", Self: "/opt/stint/stint", NewID: "u-1",
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	in := input()
	in.Model = &framework.Endpoint{Type: "anthropic", URL: "http://model.example", Key: "placeholder"}
	in.Resume = &framework.Conversation{Framework: "assistant", ID: "c-1"}
	in.Limits.MaxTurns = 7
	in.Schema = json.RawMessage(`{"type":"object"}`)
	in.MCP = []framework.MCPServer{{Name: "docs", URL: "http://docs.example", Headers: map[string]string{"A": "b"}}}
	plan, err := assistant.Assistant{}.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"/opt/stint/stint", "assistant-in-sandbox", "/run/stint/assistant.json"}, plan.Argv); d != "" {
		t.Error(d)
	}
	if !plan.KeepStdinOpen || !plan.Protocol || len(plan.Files) != 1 || plan.Files[0].Path != plan.Argv[2] {
		t.Errorf("plan %+v", plan)
	}
	var prompt protocol.Input
	if err := json.Unmarshal(plan.Stdin, &prompt); err != nil || prompt.Type != "prompt" || !strings.HasPrefix(prompt.Text, "Do\nit.\n\n") || !strings.HasSuffix(prompt.Text, `{"type":"object"}`) {
		t.Errorf("prompt %+v, error %v", prompt, err)
	}
	var got protocol.Config
	if err := json.Unmarshal(plan.Files[0].Content, &got); err != nil {
		t.Fatal(err)
	}
	want := protocol.Config{
		Provider: "anthropic", URL: "http://model.example", Key: "placeholder", Model: "m-1", Instructions: "Be kind.",
		Session: "/home/agent/.stint/assistant/session.jsonl", NewID: "u-1", Resume: "c-1", WorkDir: "/workspace", MaxTurns: 7, Schema: in.Schema,
		Volumes: []protocol.Volume{{Name: "a", Path: "/data", Writable: true}, {Name: "b", Path: "/volumes/b"}},
		MCP:     []protocol.MCPServer{{Name: "docs", URL: "http://docs.example", Headers: map[string]string{"A": "b"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPrepareOffline(t *testing.T) {
	t.Parallel()
	plan, err := assistant.Assistant{}.Prepare(input())
	if err != nil || !strings.Contains(string(plan.Files[0].Content), `"provider":"offline"`) || string(plan.Stdin) != `{"type":"prompt","text":"Do\nit."}`+"\n" {
		t.Errorf("%s %s %v", plan.Files[0].Content, plan.Stdin, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	provider := &stint.Provider{Type: "anthropic"}
	for name, c := range map[string]struct {
		d    stint.Definition
		want string // the invalid parameter
	}{
		"offline":                {stint.Definition{}, ""},
		"offline by name":        {stint.Definition{Provider: &stint.Provider{Type: "offline"}}, ""},
		"a model":                {stint.Definition{Provider: provider, Model: "m"}, ""},
		"no model":               {stint.Definition{Provider: provider}, "model"},
		"a schema":               {stint.Definition{Provider: provider, Model: "m", Output: &stint.Output{Schema: json.RawMessage(`{}`)}}, ""},
		"schema without a model": {stint.Definition{Output: &stint.Output{Schema: json.RawMessage(`{}`)}}, "output.schema"},
	} {
		err := assistant.Assistant{}.Check(&c.d)
		fault, _ := errors.AsType[*stint.Error](err)
		if fault == nil && c.want != "" || fault != nil && fault.Param != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const said = `{"type":"started","session":"c-1"}
{"type":"notice","code":"offline","text":"No model."}
{"type":"delta","kind":"reasoning","id":"m1_1","text":"Hm."}
{"type":"done","kind":"reasoning","id":"m1_1"}
{"type":"delta","kind":"message","id":"m1_2","text":"I lo"}
{"type":"delta","kind":"message","id":"m1_2","text":"ok."}
{"type":"done","kind":"message","id":"m1_2"}
{"type":"usage","turns":1,"usage":{"inputTokens":5,"outputTokens":2}}
{"type":"tool_call","tool":{"id":"t1","name":"bash","input":{"command":"ls"}}}
not ours
{"type":"working"}
{"type":"tool_result","tool":{"id":"t1","name":"bash","status":"failed","exitCode":2},"text":"oh"}
{"type":"delta","kind":"joke","id":"m1_2","text":"?"}
{"type":"news"}
{"type":"end","ok":true,"text":"All done."}
`

func TestDecoder(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 7, len(said)} {
		d := assistant.Assistant{}.NewDecoder(input())
		var all framework.Step
		for rest := said; rest != ""; {
			n := min(size, len(rest))
			all.Join(d.Write(framework.Stdout, []byte(rest[:n])))
			rest = rest[n:]
		}
		all.Join(d.Write(framework.Stderr, []byte("panic")))
		all.Join(d.Flush(framework.Stderr))
		var text strings.Builder
		var kinds []string
		for _, e := range all.Events {
			text.WriteString(e.Content)
			if e.Item == nil {
				kinds = append(kinds, e.Stream)
			} else {
				kinds = append(kinds, string(e.Item.Kind))
			}
		}
		if d := cmp.Diff("No model.\nHm.\nI look.\n$ ls\nnot ours\noh\npanic\n", text.String()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"notice", "reasoning", "reasoning", "message", "message", "message", "tool_call", "stdout", "tool_result", "stderr"}, kinds); d != "" {
			t.Error(d)
		}
		if !all.Ended || !all.CloseStdin || all.Turns != 1 || all.Usage == nil || all.Usage.InputTokens != 5 || len(all.Native) != 7 {
			t.Errorf("step %+v", all)
		}
		if d := cmp.Diff(framework.Verdict{Completed: true, Final: "All done."}, d.Verdict(1)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(framework.Conversation{Framework: "assistant", ID: "c-1"}, d.Conversation()); d != "" {
			t.Error(d)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]framework.Verdict{
		"": {Message: "The assistant ended without a result (exit code 0)."},
		`{"type":"end","reason":"budget_exceeded","error":"Too much."}`: {Reason: stint.ReasonBudget, Message: "Too much."},
		`{"type":"end","error":"No key.","text":"half"}`:                {Message: "No key.", Final: "half"},
		`{"type":"end"}`: {Message: "The assistant failed without a message."},
	} {
		d := assistant.Assistant{}.NewDecoder(input())
		d.Write(framework.Stdout, []byte(line))
		d.Flush(framework.Stdout)
		if diff := cmp.Diff(want, d.Verdict(0)); diff != "" {
			t.Error(diff)
		}
		if string(d.Interrupt()) != `{"type":"interrupt"}`+"\n" {
			t.Errorf("interrupt %q", d.Interrupt())
		}
	}
}

func TestSessionCheck(t *testing.T) {
	t.Parallel()
	plan, err := assistant.Assistant{}.Prepare(input())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".stint/assistant"}, plan.State.Keep); d != "" {
		t.Error(d)
	}
	for content, good := range map[string]bool{
		"": true, "{}\n{}\n": true, "{}\n{\"a\":": true, "{}\n{\"a\":\n": true, "{}\n{\"a\":\n{}\n": false, "x\n{}": false,
	} {
		if err := plan.State.Check("session.jsonl", []byte(content)); (err == nil) != good {
			t.Errorf("%q: %v", content, err)
		}
	}
	if err := plan.State.Check("notes.txt", []byte("x\n\n")); err != nil {
		t.Error(err)
	}
}

// Checking a file allocates little, because it happens in the server's process.
// The test does not run in parallel, because it counts allocations of the whole
// process.
func TestSessionCheckAllocatesLittle(t *testing.T) {
	plan, err := assistant.Assistant{}.Prepare(input())
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("\n"), 8<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = plan.State.Check("session.jsonl", content)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 || err == nil {
		t.Errorf("8 MiB of line ends took %d bytes; error %v", used, err)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte(said))
	for line := range strings.Lines(said) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(_ *testing.T, p []byte) {
		d := assistant.Assistant{}.NewDecoder(input())
		for _, stream := range []string{framework.Stdout, framework.Stderr} {
			d.Write(stream, p)
			d.Flush(stream)
		}
		d.Verdict(0)
		d.Conversation()
	})
}
