package assistant_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/assistant"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

// One conversation continues in four runs, each with a different provider than the run
// before.
func TestConversationWithThreeProviders(t *testing.T) {
	t.Parallel()
	server, w := modeltest.Start(t), newWorld(t)
	for i, kind := range []string{stint.ProviderAnthropic, stint.ProviderResponses, stint.ProviderChat, stint.ProviderAnthropic} {
		w.Provider, w.URL, w.Key = kind, server.URL+"/v1", "k"
		if kind == stint.ProviderAnthropic {
			w.URL = server.URL
		}
		lines, code := w.run(fmt.Sprintf("[[think: Hm.]][[run: echo %d | tee -a out.txt]] [[usage: in=100,out=20,cacheRead=40]]", i))
		end := last(lines)
		if code != 0 || !end.OK || !strings.Contains(end.Text, fmt.Sprintf("user_turns=%d", i+1)) {
			t.Fatalf("%s: exit %d, last line %+v", kind, code, end)
		}
		if started := lines[0]; started.Session != "c-1" || started.Resumed != (i > 0) {
			t.Errorf("%s: began with %+v", kind, started)
		}
		results := of(lines, protocol.LineResult)
		if len(results) != 1 || results[0].Text != strconv.Itoa(i)+"\n" || results[0].Tool.Status != stint.ToolCompleted || *results[0].Tool.ExitCode != 0 {
			t.Errorf("%s: results %+v", kind, results)
		}
		usage := of(lines, protocol.LineUsage)
		if u := last(usage); u.Turns != 2 || u.Usage.InputTokens != 200 || u.Usage.OutputTokens != 40 || u.Usage.CacheReadTokens != 80 || u.Usage.Models["m-1"].ModelCalls != 2 {
			t.Errorf("%s: usage %+v", kind, u.Usage)
		}
	}
	if got := w.file("out.txt"); got != "0\n1\n2\n3\n" {
		t.Errorf("the file holds %q", got)
	}
	for _, r := range server.Requests() {
		if d := cmp.Diff([]string{"bash", "read", "write", "edit", "list", "search"}, r.Tools); d != "" {
			t.Error(d)
		}
	}
}

func TestToolOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newScriptedModel(t, calls([2]string{"write", `{"path":"a","content":"1"}`}, [2]string{"bash", `{"command":"cat a"}`}, [2]string{"edit", `{"path":"a","old":"1","new":"2"}`}), says("Done."))
	w.useModel(b)
	lines, code := w.run("go")
	if end := last(lines); code != 0 || end.Text != "Done." {
		t.Fatalf("exit %d, %+v", code, end)
	}
	var got []string
	ids := map[string]bool{}
	for _, l := range lines {
		if l.Type == protocol.LineCall || l.Type == protocol.LineResult {
			got = append(got, l.Type+" "+l.Tool.Name+" "+l.Text)
			ids[l.Tool.ID] = true
		}
	}
	want := []string{"tool_call write ", "tool_result write Wrote 1 bytes to a.", "tool_call bash ", "tool_result bash 1", "tool_call edit ", "tool_result edit Replaced 1 occurrence in a."}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(ids) != 3 || w.file("a") != "2" {
		t.Errorf("uses %v, file %q", ids, w.file("a"))
	}
}

// If the connection ends within an answer, the assistant repeats the request without the
// incomplete text.
func TestBrokenAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newScriptedModel(t, "cut|The answer is 4", says("The answer is 42."))
	w.useModel(b)
	w.Tries = 2
	lines, code := w.run("go")
	var got []string
	for _, l := range lines[1 : len(lines)-2] {
		got = append(got, l.Type+" "+l.ID+l.Code+" "+l.Text)
	}
	want := []string{
		"delta m2_1 The answer is 4", "done m2_1 ",
		"notice api_retry The answer was interrupted (the connection ended before the answer did) and is requested again, attempt 2 of 2; its text so far is void.",
		"delta m2_2 The answer is 42.", "done m2_2 ",
	}
	if d := cmp.Diff(want, got); d != "" || code != 0 || last(lines).Text != "The answer is 42." {
		t.Error(d, code, last(lines))
	}
	if b.asked(0) != b.asked(1) {
		t.Error("the second request differs")
	}
}

func TestTurnLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.useModel(newScriptedModel(t, calls([2]string{"bash", `{"command":"echo 1"}`}), calls([2]string{"bash", `{"command":"touch never"}`}), says("I go on.")))
	w.MaxTurns = 2
	lines, code := w.run("go")
	if end := last(lines); code != 1 || end.Reason != stint.ReasonBudget || !strings.Contains(end.Error, "limits.maxTurns") {
		t.Errorf("exit %d, %+v", code, end)
	}
	if _, err := os.Stat(filepath.Join(w.WorkDir, "never")); err == nil {
		t.Error("a tool was used beyond the limit")
	}
	if lines, code := w.run("on"); code != 0 || last(lines).Text != "I go on." {
		t.Errorf("the conversation does not continue: exit %d, %+v", code, last(lines))
	}
}

func TestSchemaCorrection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []string
		ok      bool
	}{
		"at once":  {[]string{says("```json\n{\"n\": 1}\n```")}, true},
		"finally":  {[]string{says("One."), says(`{"n":"one"}`), says(`{"n":1}`)}, true},
		"not once": {[]string{says("One."), says("One!"), says("ONE")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := newScriptedModel(t, c.answers...)
			w.useModel(b)
			w.Schema = []byte(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
			lines, _ := w.run("How many?")
			end := last(lines)
			if end.OK != c.ok || len(b.answers) != 0 || len(codes(lines)) != len(c.answers)-1 {
				t.Errorf("%+v, notices %v", end, codes(lines))
			}
			if !c.ok && !strings.Contains(end.Error, "output.schema") {
				t.Errorf("error %q", end.Error)
			}
			if name == "finally" && !strings.Contains(b.asked(2), "has type") {
				t.Errorf("the validator's words are not in %s", b.asked(2))
			}
		})
	}
}

// If an answer ends at the maximum length, the assistant requests its continuation and
// joins the parts.
func TestCutAnswersAreContinued(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"type":"object","required":["n"]}`)
	long := func(text string) string { return stops(text, "length") }
	use := calls([2]string{"bash", `{"command":"true"}`})
	for name, c := range map[string]struct {
		schema  []byte
		turns   int64
		answers []string
		want    protocol.Line
		notices []string
	}{
		"continued":             {nil, 0, []string{long("One, "), long("two, "), says("three.")}, protocol.Line{OK: true, Text: "One, two, three."}, []string{"length", "length"}},
		"within the turns":      {nil, 2, []string{long("One, "), says("two.")}, protocol.Line{OK: true, Text: "One, two."}, []string{"length"}},
		"matched with a schema": {schema, 0, []string{long("```json\n{\"n\":"), says("1}\n```")}, protocol.Line{OK: true, Text: "```json\n{\"n\":1}\n```"}, []string{"length"}},
		"corrected":             {schema, 0, []string{long(`{"n"`), says("!"), says(`{"n":1}`)}, protocol.Line{OK: true, Text: `{"n":1}`}, []string{"length", "schema"}},
		"before a tool":         {nil, 0, []string{long("I will"), use, says("Done.")}, protocol.Line{OK: true, Text: "Done."}, []string{"length"}},
		"refused at the end":    {nil, 0, []string{long("One, "), stops("no.", "content_filter")}, protocol.Line{Text: "One, no.", Error: "refused"}, []string{"length"}},
		"cut every time":        {nil, 0, []string{long("1"), long("2"), long("3"), long("4")}, protocol.Line{Text: "1234", Error: "4 times, and the last one is incomplete. Ask for less"}, []string{"length", "length", "length"}},
		"without turns left":    {nil, 2, []string{long("1"), long("2")}, protocol.Line{Text: "12", Reason: stint.ReasonBudget, Error: "limits.maxTurns"}, []string{"length"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := newScriptedModel(t, c.answers...)
			w.useModel(b)
			w.Schema, w.MaxTurns = c.schema, c.turns
			lines, _ := w.run("go")
			got := last(lines)
			if got.OK != c.want.OK || got.Text != c.want.Text || got.Reason != c.want.Reason || !strings.Contains(got.Error, c.want.Error) {
				t.Errorf("%+v", got)
			}
			if d := cmp.Diff(c.notices, codes(lines)); d != "" || len(b.answers) != 0 {
				t.Errorf("%d answers left, notices: %s", len(b.answers), d)
			}
		})
	}
}

func TestFailureMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, want string }{
		"key":     {`401|{"error":{"message":"bad key"}}`, "provider.apiKey"},
		"model":   {`404|{"error":{"message":"no model m-1"}}`, "'m-1'"},
		"address": {`404|<html>`, "provider.baseUrl"},
		"quota":   {`402|{"error":{"message":"pay"}}`, "no credit left"},
		"rate":    {`429|{"error":{"message":"slow"}}`, "Try again later"},
		"request": {`400|{"error":{"message":"no tools here"}}`, "no tools here"},
		"server":  {`500|oh`, "Try again later"},
		"context": {`400|{"error":{"code":"context_length_exceeded","message":"too long"}}`, "longer context"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.useModel(newScriptedModel(t, c.answer))
			lines, code := w.run("go")
			if end := last(lines); code != 1 || !strings.Contains(end.Error, c.want) || end.OK {
				t.Errorf("exit %d, %+v", code, end)
			}
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Provider, w.URL = stint.ProviderAnthropic, "http://127.0.0.1:1"
		if lines, _ := w.run("go"); !strings.Contains(last(lines).Error, "could not be reached") {
			t.Errorf("%+v", last(lines))
		}
	})
	t.Run("refusal", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.useModel(newScriptedModel(t, stops("No.", "content_filter")))
		if lines, _ := w.run("go"); !strings.Contains(last(lines).Error, "refused") {
			t.Errorf("%+v", last(lines))
		}
	})
}

// waitFor reads lines of the output up to the first line with the type kind.
func (w *world) waitFor(out interface{ ReadBytes(byte) ([]byte, error) }, kind string) {
	w.t.Helper()
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			w.t.Fatalf("the output ended before a %s: %v", kind, err)
		}
		if strings.Contains(string(line), `"type":"`+kind+`"`) {
			return
		}
	}
}

// If a run is stopped during a tool call, no process of the tool remains, and the next
// run continues the conversation.
func TestKilledDuringTool(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *os.Process, func(string)){
		"interrupt": func(_ *testing.T, _ *os.Process, tell func(string)) { tell(`{"type":"interrupt"}` + "\n") },
		"SIGTERM":   func(t *testing.T, p *os.Process, _ func(string)) { signalled(t, p, syscall.SIGTERM) },
		"SIGKILL":   func(t *testing.T, p *os.Process, _ func(string)) { signalled(t, p, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			fifo := filepath.Join(w.WorkDir, "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd, stdin, out := w.start("run: trap '' TERM; echo $$ > fifo; sleep 1000 & wait; sleep 1000")
			pid, err := os.ReadFile(fifo)
			if err != nil {
				t.Fatal(err)
			}
			end(t, cmd.Process, func(s string) {
				if _, err := stdin.Write([]byte(s)); err != nil {
					t.Fatal(err)
				}
			})
			lines := parsed(t, out)
			_ = cmd.Wait() // the exit code is checked below, except after SIGKILL
			group, err := strconv.Atoi(strings.TrimSpace(string(pid)))
			if err != nil {
				t.Fatal(err)
			}
			if name == "SIGKILL" {
				_ = syscall.Kill(-group, syscall.SIGKILL) // as the sandbox does when it is closed
			} else {
				if l := last(lines); cmd.ProcessState.ExitCode() != 130 || l.Reason != stint.ReasonCancelled {
					t.Errorf("exit %d, last line %+v", cmd.ProcessState.ExitCode(), l)
				}
				limit := time.Now().Add(time.Minute)
				for alive(group) && time.Now().Before(limit) { // a killed process takes a moment to end
					runtime.Gosched()
				}
				if alive(group) {
					t.Error("processes of the tool are left")
				}
			}
			b := newScriptedModel(t, says("On we go."))
			w.useModel(b)
			if lines, code := w.run("go on"); code != 0 || last(lines).Text != "On we go." || !lines[0].Resumed {
				t.Errorf("exit %d, %+v", code, last(lines))
			}
			if !strings.Contains(b.asked(0), "Interrupted: the tool was stopped") {
				t.Errorf("the request is %s", b.asked(0))
			}
		})
	}
}

func signalled(t *testing.T, p *os.Process, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// alive reports whether a process group has a process that is not a zombie.
func alive(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true
		}
	}
	return false
}

func TestInterruptDuringRequest(t *testing.T) {
	t.Parallel()
	server, w := modeltest.Start(t), newWorld(t)
	w.Provider, w.URL = stint.ProviderAnthropic, server.URL
	cmd, stdin, out := w.start("[[run: true]][[sleep: 100]]")
	w.waitFor(out, protocol.LineResult)
	if err := server.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write([]byte(`{"type":"interrupt"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	lines := parsed(t, out)
	_ = cmd.Wait() // the exit code is checked below
	if cmd.ProcessState.ExitCode() != 130 || last(lines).Reason != stint.ReasonCancelled {
		t.Errorf("exit %d, %+v", cmd.ProcessState.ExitCode(), last(lines))
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		stdin string
		want  string
	}{
		"no configuration":     {nil, "", "usage"},
		"missing":              {[]string{broken + "x"}, "", "read the configuration"},
		"broken":               {[]string{broken}, "", "read the configuration"},
		"no prompt":            {[]string{newWorld(t).config()}, "x\n", "no prompt"},
		"an interrupt instead": {[]string{newWorld(t).config()}, `{"type":"interrupt"}` + "\n", "prompt"},
	} {
		var out, errs bytes.Buffer
		if code := assistant.Main(t.Context(), c.args, strings.NewReader(c.stdin), &out, &errs); code != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s", name, code, errs.String())
		}
	}
}
