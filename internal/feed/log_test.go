package feed_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/notify/inproc"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func outputEvent(at time.Time, content string) stint.Event {
	data, _ := json.Marshal(stint.OutputData{Content: content, Stream: "stdout"})
	return stint.Event{Type: stint.EventOutput, At: stint.TimeOf(at), Data: data}
}

// drawLog returns a run with random events and log entries, many of them with equal times,
// and the messages of its log in the expected order.
func drawLog(t *rapid.T) (*memory, []string) {
	m := &memory{}
	type line struct {
		at   int
		rank int
		text string
	}
	var lines []line
	at := 0
	for i := range rapid.IntRange(0, 40).Draw(t, "items") {
		at += rapid.IntRange(0, 2).Draw(t, "step")
		when := epoch.Add(time.Duration(at) * time.Millisecond)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			m.add(stint.Event{Type: stint.EventStatus, At: stint.TimeOf(when), Data: json.RawMessage(`{"status":"running"}`)})
		case 1:
			text := fmt.Sprintf("entry %d", i)
			m.log(when, text)
			lines = append(lines, line{at, 0, text})
		default:
			n := rapid.IntRange(1, 4).Draw(t, "lines")
			var content []string
			for l := range n {
				content = append(content, fmt.Sprintf("event %d line %d", i, l))
				lines = append(lines, line{at, 1, content[l]})
			}
			m.add(outputEvent(when, strings.Join(content, "\n")+"\n"))
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.rank - b.rank
	})
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	return m, texts
}

// TestRandomLogPages checks that pages of any size, in both directions, contain the whole log
// in the expected order.
func TestRandomLogPages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, want := drawLog(t)
		desc := rapid.Bool().Draw(t, "desc")
		if desc {
			slices.Reverse(want)
		}
		f := feed.New(m, inproc.New(), false)
		q := feed.LogQuery{Desc: desc, Limit: rapid.IntRange(1, 7).Draw(t, "limit")}
		got := []string{}
		for {
			page, next, err := f.Logs(t.Context(), "run_x", q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > q.Limit {
				t.Fatalf("a page of %d entries, limit %d", len(page), q.Limit)
			}
			for _, e := range page {
				got = append(got, e.Message)
			}
			if next == nil {
				break
			}
			q.After = next
		}
		if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
			t.Fatalf("pages (-want +got):\n%s", diff)
		}
	})
}

func TestLogTimeRangeIsInclusive(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for i := range 5 {
		m.add(outputEvent(epoch.Add(time.Duration(i)*time.Second), fmt.Sprintf("out %d\n", i)))
		m.log(epoch.Add(time.Duration(i)*time.Second), fmt.Sprintf("sys %d", i))
	}
	f := feed.New(m, inproc.New(), false)
	since, until := stint.TimeOf(epoch.Add(time.Second)), stint.TimeOf(epoch.Add(3*time.Second))
	want := []string{"sys 1", "out 1", "sys 2", "out 2", "sys 3", "out 3"}
	for _, desc := range []bool{false, true} {
		page, next, err := f.Logs(t.Context(), "run_x", feed.LogQuery{Since: &since, Until: &until, Desc: desc, Limit: 100})
		if err != nil || next != nil {
			t.Fatalf("next %v, error %v", next, err)
		}
		got := []string{}
		for _, e := range page {
			got = append(got, e.Message)
		}
		if desc {
			slices.Reverse(got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("desc=%v (-want +got):\n%s", desc, diff)
		}
	}
	page, _, err := f.Logs(t.Context(), "run_x", feed.LogQuery{Type: stint.LogSystem, Limit: 100})
	if err != nil || len(page) != 5 {
		t.Errorf("%d system entries, error %v; want 5", len(page), err)
	}
}

func TestLogMetadata(t *testing.T) {
	t.Parallel()
	code := 3
	tool := func(input string) stint.OutputData {
		return stint.OutputData{Content: "$ make\nok\n", Item: &stint.Item{Kind: stint.ItemToolCall, MessageID: "m", Tool: &stint.ToolItem{
			ID: "t1", Name: "Bash", Title: "$ make", Category: "execute", Status: stint.ToolFailed, ExitCode: &code, Input: json.RawMessage(input),
		}}}
	}
	whole := map[string]any{"id": "t1", "name": "Bash", "title": "$ make", "category": "execute", "status": "failed", "exitCode": 3.0}
	with := func(key string, v any) map[string]any {
		m := maps.Clone(whole)
		m[key] = v
		return map[string]any{"kind": "tool_call", "messageId": "m", "tool": m}
	}
	for name, tt := range map[string]struct {
		of    stint.OutputData
		level string
		want  map[string]any
		lines int
	}{
		"text":           {stint.OutputData{Content: "a\n", Stream: "stderr"}, "info", map[string]any{"stream": "stderr"}, 1},
		"tool":           {tool(`{"command":"make"}`), "info", with("input", map[string]any{"command": "make"}), 2},
		"with big input": {tool(`"` + strings.Repeat("x", 60<<10) + `"`), "info", with("truncated", true), 2},
		"notice":         {stint.OutputData{Content: "again\n", Item: &stint.Item{Kind: stint.ItemNotice, Code: "api_retry"}}, "warn", map[string]any{"kind": "notice", "code": "api_retry"}, 1},
	} {
		data, err := json.Marshal(tt.of)
		if err != nil {
			t.Fatal(err)
		}
		m := &memory{}
		m.add(stint.Event{Type: stint.EventOutput, At: stint.TimeOf(epoch), Data: data})
		page, _, err := feed.New(m, inproc.New(), false).Logs(t.Context(), "run", feed.LogQuery{Limit: 10})
		if err != nil || len(page) != tt.lines {
			t.Fatalf("%s: %d entries, want %d: %v", name, len(page), tt.lines, err)
		}
		var got map[string]any
		text, err := json.Marshal(page[0].Metadata)
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" || page[0].Level != tt.level {
			t.Errorf("%s: level %s, error %v (-want +got):\n%s", name, page[0].Level, err, diff)
		}
	}
}

// TestFollowedLogHasEveryEntryOnce checks that pages that are read while a log grows
// contain every entry once, even entries with a time before that of earlier pages.
func TestFollowedLogHasEveryEntryOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, got, want := &memory{}, []string{}, []string{}
		f := feed.New(m, inproc.New(), false)
		q := feed.LogQuery{Follow: true, Limit: rapid.IntRange(1, 5).Draw(t, "limit")}
		read := func() int {
			page, next, err := f.Logs(t.Context(), "run_x", q)
			if err != nil || next == nil {
				t.Fatalf("cursor %v, error %v", next, err)
			}
			for _, e := range page {
				got = append(got, e.Message)
			}
			q.After = next
			return len(page)
		}
		for i := range rapid.IntRange(0, 30).Draw(t, "items") {
			when := epoch.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "time")) * time.Millisecond)
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				m.log(when, fmt.Sprintf("entry %d", i))
				want = append(want, fmt.Sprintf("entry %d", i))
			case 1:
				m.add(outputEvent(when, fmt.Sprintf("a %d\nb %d\n", i, i)))
				want = append(want, fmt.Sprintf("a %d", i), fmt.Sprintf("b %d", i))
			default:
				read()
			}
		}
		for read() > 0 {
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("entries (-want +got):\n%s", diff)
		}
	})
}
