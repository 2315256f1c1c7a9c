package acp_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/acp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestRecordings replays the output of claude-agent-acp 0.49.0 with Claude Code
// 2.1.197, opencode 1.18.33, and Gemini CLI 0.61.0, and compares the answers and
// events with golden files.
func TestRecordings(t *testing.T) {
	t.Parallel()
	const session = "1d44c5d4-7674-4028-8871-f678abef0c0c"
	resume := func(id string) *framework.Conversation {
		return &framework.Conversation{Framework: "acp", ID: id}
	}
	tests := map[string]framework.Input{
		"claude-tool":     {Prompt: "Do this: [[run: echo hi > out.txt; cat out.txt]]", Definition: &stint.Definition{Model: "claude-sonnet-5"}},
		"claude-resume":   {Prompt: "Now write: [[write: /workspace/note.txt one two]]", Resume: resume(session)},
		"claude-load":     {Prompt: "And again", Resume: resume(session)},
		"claude-lost":     {Prompt: "And again", Resume: resume("00000000-0000-4000-8000-000000000000")},
		"claude-fail":     {Prompt: "[[run: echo oops; exit 3]]"},
		"claude-cancel":   {Prompt: "[[run: echo started; sleep 77]]"},
		"claude-auth":     {Prompt: "hello"},
		"opencode-tool":   {Prompt: "Do [[run: echo hi; exit 3]]", Definition: &stint.Definition{Model: "mock/other-model"}},
		"opencode-resume": {Prompt: "More", Resume: resume("ses_e0010a1dfffeWwRyZoVPFDy4v4")},
		"gemini-load":     {Prompt: "More", Resume: resume("fa5d8f37-6ed8-4cfe-b970-6400b3660246")},
		"gemini-tool":     {Prompt: "Do [[run: echo hi]]", Definition: &stint.Definition{Model: "gemini-2.5-flash"}},
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if in.Definition == nil {
				in.Definition = &stint.Definition{}
			}
			in.Definition.Command, in.Definition.Instructions = []string{"claude-agent-acp"}, "Be brief."
			in.WorkDir = "/workspace"
			in.Model = &framework.Endpoint{Type: stint.ProviderAnthropic, URL: "http://model.stint.internal", Key: "placeholder"}
			got := replay(t, "testdata/"+name+".talk", in)
			golden := "testdata/" + name + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("what came of the talk (-want +got):\n%s", diff)
			}
		})
	}
}

// replay sends the agent's lines of a recording to the client and compares the client's
// answers with the recording. It returns a description of the events and the verdict.
func replay(t *testing.T, file string, in framework.Input) string {
	t.Helper()
	plan, err := acp.Framework{}.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	d := acp.Framework{}.NewDecoder(in)
	sent, out := string(plan.Stdin), &strings.Builder{}
	var ended bool
	for _, line := range talk(t, file) {
		said, ok := strings.CutPrefix(line, "< ")
		if ok {
			s := d.Write(framework.Stdout, []byte(said+"\n"))
			sent += string(s.Send)
			ended = ended || s.Ended && s.CloseStdin
			describe(t, out, s)
			continue
		}
		want := strings.TrimPrefix(line, "> ") + "\n"
		if strings.Contains(want, `"session/cancel"`) {
			sent += string(d.Interrupt())
		}
		got, rest, _ := strings.Cut(sent, "\n")
		sent = rest
		if diff := cmp.Diff(want, got+"\n"); diff != "" {
			t.Errorf("sent to the agent (-want +got):\n%s", diff)
		}
	}
	if sent != "" || !ended {
		t.Errorf("at the end of the recording: sent %q beyond it, ended %v", sent, ended)
	}
	describe(t, out, d.Flush(framework.Stdout))
	fmt.Fprintf(out, "verdict %s\nconversation %s\n", marshal(t, d.Verdict(0)), marshal(t, d.Conversation()))
	return out.String()
}

func describe(t *testing.T, out *strings.Builder, s framework.Step) {
	t.Helper()
	for _, e := range s.Events {
		fmt.Fprintf(out, "event %s\n", marshal(t, e))
	}
	for _, n := range s.Native {
		fmt.Fprintf(out, "native %s\n", n.Type)
	}
	if s.Usage != nil {
		fmt.Fprintf(out, "usage %s\n", marshal(t, s.Usage))
	}
}

func talk(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	r := bufio.NewScanner(f)
	r.Buffer(nil, 1<<20)
	for r.Scan() {
		lines = append(lines, r.Text())
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}
