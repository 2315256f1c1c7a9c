package assistant_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
)

func TestLongConversationIsSummarised(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := calls([2]string{"bash", `{"command":"head -c 20000 /dev/zero | tr '\\0' x"}`})
	b := newScriptedModel(t, long, long, says("SUMMARY"), says("The end."), says("Still here."))
	w.useModel(b)
	w.ContextTokens = 12_000
	lines, code := w.run("the prompt, word for word")
	if code != 0 || last(lines).Text != "The end." {
		t.Fatalf("exit %d, %+v", code, last(lines))
	}
	if d := cmp.Diff([]string{"compaction"}, codes(lines)); d != "" {
		t.Error(d)
	}
	if strings.Contains(b.asked(2), `"tools"`) || !strings.Contains(b.asked(2), "[tool bash]") {
		t.Errorf("the summary was asked for with %.300s", b.asked(2))
	}
	if again := b.asked(3); !strings.Contains(again, "SUMMARY") || !strings.Contains(again, "word for word") || len(again) > 30_000 {
		t.Errorf("after the summary the request has %d bytes: %.600s", len(again), again)
	}
	if u := last(of(lines, protocol.LineUsage)); u.Usage.ModelCalls != 4 || u.Turns != 3 {
		t.Errorf("usage %+v, turns %d", u.Usage, u.Turns)
	}
	kept, err := os.ReadFile(w.Session)
	if err != nil || bytes.Count(kept, []byte("xxxxxxxxxx")) < 2*1000 {
		t.Errorf("the file does not keep everything (error %v)", err)
	}
	if lines, _ := w.run("more"); last(lines).Text != "Still here." || !strings.Contains(b.asked(4), "SUMMARY") || len(b.asked(4)) > 30_000 {
		t.Errorf("%+v", last(lines))
	}
}

func TestSummaryAfterContextError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newScriptedModel(t, calls([2]string{"bash", `{"command":"echo 1"}`}), calls([2]string{"bash", `{"command":"echo 2"}`}),
		`400|{"error":{"message":"the request exceeds the available context size"}}`, says("SUMMARY"), says("The end."))
	w.useModel(b)
	lines, code := w.run("go")
	if code != 0 || last(lines).Text != "The end." || !strings.Contains(b.asked(4), "SUMMARY") {
		t.Errorf("exit %d, %+v", code, last(lines))
	}
}

// If the model returns no summary, the conversation continues unchanged. If its context is
// full, it cannot continue, and the run fails.
func TestMissingSummary(t *testing.T) {
	t.Parallel()
	const full = `400|{"error":{"code":"context_length_exceeded","message":"too long"}}`
	long := calls([2]string{"bash", `{"command":"head -c 20000 /dev/zero | tr '\\0' x"}`})
	for name, c := range map[string]struct {
		limit   int64
		answers []string
		want    protocol.Line
		notices []string
	}{
		"summary empty":            {12_000, []string{long, long, says(" \n"), long, says("The end.")}, protocol.Line{OK: true, Text: "The end."}, []string{"no_summary"}},
		"summary refused":          {12_000, []string{long, long, stops("I won't.", "content_filter"), long, says("The end.")}, protocol.Line{OK: true, Text: "The end."}, []string{"no_summary"}},
		"summary empty until full": {12_000, []string{long, long, says(""), full, says("SUMMARY"), says("The end.")}, protocol.Line{OK: true, Text: "The end."}, []string{"no_summary", "compaction"}},
		"for a full context":       {0, []string{long, long, full, stops("I won't.", "content_filter")}, protocol.Line{Error: "returned no summary of it. Begin a new session"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := newScriptedModel(t, c.answers...)
			w.useModel(b)
			w.ContextTokens = c.limit
			lines, _ := w.run("the prompt, word for word")
			if got := last(lines); got.OK != c.want.OK || got.Text != c.want.Text || !strings.Contains(got.Error, c.want.Error) {
				t.Errorf("%+v", got)
			}
			if d := cmp.Diff(c.notices, codes(lines)); d != "" || len(b.answers) != 0 {
				t.Errorf("%d answers left, notices: %s", len(b.answers), d)
			}
			kept, err := os.ReadFile(w.Session)
			if summaries := bytes.Count(kept, []byte(`"type":"compaction"`)); err != nil || summaries != strings.Count(strings.Join(c.answers, ""), "SUMMARY") {
				t.Errorf("the file has %d summaries (error %v)", summaries, err)
			}
			if c.want.OK {
				if again := b.asked(len(c.answers) - 1); !strings.Contains(again, "word for word") || !strings.Contains(again, "xxxxxxxxxx") {
					t.Errorf("the request is %.600s", again)
				}
			}
		})
	}
}

// A new summary replaces the older one. Later requests contain the new summary and the
// records that it does not cover, but not the older summary.
func TestSummaryReplacesSummary(t *testing.T) {
	t.Parallel()
	const full = `400|{"error":{"code":"context_length_exceeded","message":"too long"}}`
	gives := func(marker string, bytes int) string {
		return calls([2]string{"bash", fmt.Sprintf(`{"command":"echo %s; head -c %d /dev/zero | tr '\\0' x"}`, marker, bytes)})
	}
	big := strings.Repeat("word ", 2000)
	for name, c := range map[string]struct {
		limit   int64
		answers []string
		told    []string // texts in the run's last request and in the next run's, in this order
	}{
		"both by size": {12_000, []string{
			gives("one", 20_000), gives("two", 20_000), says("OLDER"), gives("three", 20_000), says("NEWER"),
		}, []string{"NEWER", "three"}},
		"for a full context, then by size": {0, []string{
			gives("one", 20_000), gives("two", 3000), gives("three", 10), gives("four", 10),
			full, says("OLDER" + big), gives("five", 2000), says("NEWER" + big), gives("six", 10),
		}, []string{"NEWER", "three", "four", "five", "six"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := newScriptedModel(t, append(c.answers, says("The end."), says("Still here."))...)
			w.useModel(b)
			w.ContextTokens = c.limit
			lines, code := w.run("go")
			if code != 0 || last(lines).Text != "The end." {
				t.Fatalf("exit %d, %+v", code, last(lines))
			}
			if d := cmp.Diff([]string{"compaction", "compaction"}, codes(lines)); d != "" {
				t.Error(d)
			}
			w.run("more")
			for i, when := range []string{"in the run", "in the next"} {
				asked := b.asked(len(c.answers) + i)
				at := 0
				for _, text := range c.told {
					n := strings.Index(asked[at:], text)
					if n < 0 {
						t.Fatalf("%s, the text %q is missing or in the wrong place: %s", when, text, asked)
					}
					at += n
				}
				if strings.Contains(asked, "OLDER") {
					t.Errorf("%s, the request contains the older summary, too", when)
				}
			}
		})
	}
}
