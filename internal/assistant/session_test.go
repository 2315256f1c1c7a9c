package assistant_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/assistant"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
)

const (
	header    = `{"type":"session","at":"2026-01-01T00:00:00Z","id":"c-0"}` + "\n"
	asked     = `{"type":"prompt","at":"2026-01-01T00:00:00Z","text":"the first prompt"}` + "\n"
	using     = `{"type":"answer","at":"2026-01-01T00:00:00Z","parts":[{"kind":"tool_use","id":"a","name":"bash","input":{}},{"kind":"tool_use","id":"b","name":"bash","input":{}}]}` + "\n"
	gave      = `{"type":"result","at":"2026-01-01T00:00:00Z","id":"a","text":"x"}` + "\n"
	answered  = `{"type":"answer","at":"2026-01-01T00:00:00Z","parts":[{"kind":"text","text":"an answer"}]}` + "\n"
	shortened = `{"type":"compaction","at":"2026-01-01T00:00:00Z","text":"in short","through":2}` + "\n"
	kept      = `{"type":"prompt","at":"2026-01-01T00:00:00Z","text":"the kept prompt"}` + "\n"
)

// summary returns a record with a summary of all records up to the number through.
func summary(text string, through int) string {
	return fmt.Sprintf(`{"type":"compaction","at":"2026-01-01T00:00:00Z","text":%q,"through":%d}`+"\n", text, through)
}

func TestOpenSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		damage  string   // part of the error message if the file is damaged
		told    []string // texts that the request contains
		not     string   // text that the request does not contain
	}{
		"none":                     {"", "", []string{"on"}, "first prompt"},
		"only the session record":  {header, "", []string{"on"}, "first prompt"},
		"whole":                    {header + asked + answered, "", []string{"first prompt", "an answer"}, ""},
		"torn":                     {header + asked + answered[:40], "", []string{"first prompt"}, "an ans"},
		"torn in its first line":   {header[:10], "", []string{"on"}, "first prompt"},
		"zeros at the end":         {header + asked + "\x00\x00\x00", "", []string{"first prompt"}, ""},
		"killed in a tool":         {header + asked + using + gave, "", []string{"Interrupted: the tool was stopped"}, ""},
		"summarised":               {header + asked + answered + shortened + asked + answered, "", []string{"in short", "an answer"}, ""},
		"summarised twice":         {header + asked + answered + kept + summary("what was first", 2) + answered + summary("what was next", 3), "", []string{"what was next", "kept prompt", "an answer"}, "what was first"},
		"a summary of a summary":   {header + asked + answered + kept + summary("what was first", 2) + summary("what was next", 3) + summary("what was last", 5), "", []string{"what was last", "kept prompt"}, "what was first"},
		"damaged":                  {header + "{}}\n" + asked, "line 2 is not a record", nil, ""},
		"unknown record type":      {header + `{"type":"joke"}` + "\n" + asked, "line 2: a record has the unknown type", nil, ""},
		"no session record":        {asked + answered, "line 1: only the first record can be the session's ID", nil, ""},
		"two session records":      {header + header + asked, "line 2: only the first record", nil, ""},
		"result without a call":    {header + asked + gave + asked, "line 3: the result a belongs to no tool call", nil, ""},
		"call without a result":    {header + using + asked + asked, "line 3: the tool call a has no result", nil, ""},
		"summary of later records": {header + strings.Replace(shortened, "2", "7", 4) + asked, "line 2", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(w.Session, c.content)
			b := newScriptedModel(t, says("Yes."))
			w.useModel(b)
			lines, code := w.run("on")
			if c.damage != "" {
				if end := last(lines); code != 1 || !strings.Contains(end.Error, c.damage) || !strings.Contains(end.Error, "Begin a new session") {
					t.Errorf("exit %d, %+v", code, end)
				}
				if kept, err := os.ReadFile(w.Session); err != nil || string(kept) != c.content {
					t.Errorf("the file was changed, or lost: %v", err)
				}
				return
			}
			if code != 0 || last(lines).Text != "Yes." {
				t.Fatalf("exit %d, %+v", code, last(lines))
			}
			for _, text := range c.told {
				if !strings.Contains(b.asked(0), text) {
					t.Errorf("the request lacks %q: %s", text, b.asked(0))
				}
			}
			if c.not != "" && strings.Contains(b.asked(0), c.not) {
				t.Errorf("the request contains %q: %s", c.not, b.asked(0))
			}
			if lines, code := w.run("run"); code != 1 || !lines[0].Resumed { // the model has no answer left, but the file is valid
				t.Errorf("the next run: exit %d, %+v", code, lines[0])
			}
		})
	}
}

func TestLostConversationIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Resume = "c-0"
	lines, code := w.run("write a: b")
	if d := cmp.Diff([]string{"conversation_lost", "offline"}, codes(lines)); d != "" || code != 0 {
		t.Error(d, code)
	}
	lines, _ = w.run("write a: b")
	if d := cmp.Diff([]string{"offline"}, codes(lines)); d != "" {
		t.Error(d)
	}
}

// FuzzSession runs the assistant twice with arbitrary bytes as its session file. Both runs
// must end with the same exit code.
func FuzzSession(f *testing.F) {
	f.Add([]byte(header + asked + using + gave))
	f.Add([]byte(header + asked + answered + shortened + asked))
	f.Add([]byte(header + asked + answered[:30]))
	f.Fuzz(func(t *testing.T, content []byte) {
		w := newWorld(t)
		w.write(w.Session, string(content))
		lines, code := w.run("write a: b")
		end := last(lines)
		if end.Type != protocol.LineEnd || end.OK != (code == 0) || end.OK == (end.Error != "") {
			t.Fatalf("exit %d, %+v", code, end)
		}
		if _, again := w.run("write a: b"); again != code {
			t.Fatalf("exit %d, then %d", code, again)
		}
	})
}

func TestOffline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	volume := t.TempDir()
	w.Volumes = []protocol.Volume{{Name: "data", Path: volume}}
	w.write(volume+"/a/rows.csv", "1\n2\n3")
	w.write(volume+"/picture.png", "\x89PNG\x00\x00")
	lines, code := w.run("Please:\nrun: echo hello; exit 3\n  write notes.txt: line one\nread notes.txt\nread the whole book\nwrite a poem: now\n")
	if end := last(lines); code != 0 || end.Text != "Done: 2 of 3 steps without failure." {
		t.Fatalf("exit %d, %+v", code, end)
	}
	var results []string
	for _, l := range of(lines, protocol.LineResult) {
		results = append(results, l.Tool.Name+": "+l.Text)
	}
	if d := cmp.Diff([]string{"bash: hello\n(exit code 3)", "write: Wrote 9 bytes to notes.txt.", "read: line one\n"}, results); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"offline"}, codes(lines)); d != "" || of(lines, protocol.LineUsage)[0].Usage != nil {
		t.Error("no notice, or a usage:", d)
	}
	for range 2 { // the second report must not list the first
		if lines, code := w.run("What is\nin here?"); code != 0 || len(of(lines, protocol.LineCall)) != 3 {
			t.Fatalf("exit %d, %+v", code, last(lines))
		}
	}
	got := strings.NewReplacer(w.WorkDir, "WORK", volume, "VOLUME").Replace(w.file("REPORT.md"))
	want, err := os.ReadFile("testdata/report.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
}

// Without a model, a conversation is not summarised: each step is executed exactly once,
// even if the output of all steps is long.
func TestOfflineNeedsNoSummary(t *testing.T) {
	t.Parallel()
	const steps = 15
	w := newWorld(t)
	w.MaxTurns = 2 * steps
	var prompt, want strings.Builder
	for i := range steps {
		fmt.Fprintf(&prompt, "run: echo %d >> ran; head -c 31000 /dev/zero | tr '\\0' x\n", i)
		fmt.Fprintln(&want, i)
	}
	lines, code := w.run(prompt.String())
	if end := last(lines); code != 0 || end.Text != "Done: 15 of 15 steps without failure." {
		t.Errorf("exit %d, %+v", code, end)
	}
	if d := cmp.Diff(want.String(), w.file("ran")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"offline"}, codes(lines)); d != "" {
		t.Error(d)
	}
}

// The output of an offline run is deterministic.
func TestOfflineIsDeterministic(t *testing.T) {
	t.Parallel()
	var first []byte
	for range 2 {
		w := newWorld(t)
		var out bytes.Buffer
		assistant.Main(t.Context(), []string{w.config()}, strings.NewReader(promptLine("Tell.")), &out, &out)
		said := bytes.ReplaceAll(out.Bytes(), []byte(w.WorkDir), []byte("WORK"))
		if first != nil && !slices.Equal(first, said) {
			t.Error(cmp.Diff(string(first), string(said)))
		}
		first = said
	}
}
