package sqlstore_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store/sqlstore"
)

var base = stint.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC))

func after(ms int) stint.Time {
	return stint.Time{Time: base.Add(time.Duration(ms) * time.Millisecond)}
}

func event(ms int, kind stint.EventType, data string) stint.Event {
	return stint.Event{Type: kind, At: after(ms), Data: json.RawMessage(data)}
}

// numbered returns a copy of events with the positions first, first+1, and so on.
func numbered(first int64, events []stint.Event) []stint.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Seq = first + int64(i)
	}
	return events
}

func TestDecodeEvents(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuv"[rand.IntN(32)]
	}
	for name, events := range map[string][]stint.Event{
		"one":              {event(0, stint.EventStatus, `{"status":"pending"}`)},
		"every type":       {event(0, stint.EventOutput, `{}`), event(5, stint.EventError, `{}`), event(5, stint.EventComplete, `{}`), event(9, "custom", `{}`)},
		"no data":          {event(0, stint.EventOutput, "")},
		"compressible":     {event(0, stint.EventOutput, `"`+strings.Repeat("all work and no play ", 500)+`"`), event(1, stint.EventOutput, `{}`)},
		"incompressible":   {event(0, stint.EventOutput, `"`+string(noise)+`"`)},
		"before the epoch": {{Type: stint.EventOutput, At: stint.TimeOfMicros(-5_000_000), Data: json.RawMessage(`{}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sqlstore.EncodeEvents(events)
			if p.Count != int64(len(events)) || p.At != events[len(events)-1].At.UnixMicro() {
				t.Errorf("count %d, at %d", p.Count, p.At)
			}
			floor := min(0, p.At)
			got, err := sqlstore.DecodeEvents(p.Body, 7, floor)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(numbered(7, events), got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLargeBodyIsCompressed(t *testing.T) {
	t.Parallel()
	data := `"` + strings.Repeat("all work and no play ", 500) + `"`
	if n := len(sqlstore.EncodeEvents([]stint.Event{event(0, stint.EventOutput, data)}).Body); n > len(data)/4 {
		t.Errorf("%d bytes were encoded as %d", len(data), n)
	}
}

func TestTimesDoNotDecrease(t *testing.T) {
	t.Parallel()
	events := []stint.Event{event(10, "a", ""), event(5, "b", ""), event(30, "c", ""), event(20, "d", "")}
	p := sqlstore.EncodeEvents(events)
	for floor, want := range map[int][]int{0: {10, 10, 30, 30}, 15: {15, 15, 30, 30}, 40: {40, 40, 40, 40}} {
		got, err := sqlstore.DecodeEvents(p.Body, 1, after(floor).UnixMicro())
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range got {
			if !e.At.Equal(after(want[i]).Time) {
				t.Errorf("floor %d: event %d is at %s, want %s", floor, i, e.At, after(want[i]))
			}
		}
	}
}

func TestDecodeEntries(t *testing.T) {
	t.Parallel()
	entries := []stint.LogEntry{
		{Timestamp: after(0), Type: stint.LogAgent, Level: "info", Message: "plain", Metadata: map[string]any{}},
		{Timestamp: after(1), Type: stint.LogNetwork, Level: "warn", Message: "\x00\xff odd", Metadata: map[string]any{"port": 443.0, "tags": []any{"a", nil}}},
		{Timestamp: after(1), Type: "other", Level: "loud", Message: strings.Repeat("long ", 1000), Metadata: map[string]any{"a": map[string]any{"b": true}}},
	}
	p, err := sqlstore.EncodeEntries(entries)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sqlstore.DecodeEntries(p.Body, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Error(diff)
	}
	if _, err := sqlstore.EncodeEntries([]stint.LogEntry{{Metadata: map[string]any{"f": func() {}}}}); err == nil {
		t.Error("metadata that is not JSON was encoded")
	}
}

func TestDecodeDamagedBody(t *testing.T) {
	t.Parallel()
	whole := sqlstore.EncodeEvents([]stint.Event{event(0, "custom", `{"a":1}`), event(1, stint.EventOutput, `{"b":2}`)}).Body
	for n := range len(whole) {
		got, err := sqlstore.DecodeEvents(whole[:n], 1, 0)
		if err == nil && len(got) == 2 {
			t.Errorf("%d of %d bytes were decoded without an error", n, len(whole))
		}
	}
	for name, body := range map[string][]byte{
		"nothing": nil, "no form": {9, 1, 1}, "unknown word": {1, 0, 200, 0}, "length beyond the end": {1, 0, 1, 200, 1}, "bomb": {2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0},
	} {
		if _, err := sqlstore.DecodeEvents(body, 1, 0); err == nil {
			t.Errorf("%s: decoded without an error", name)
		}
		if _, err := sqlstore.DecodeEntries(body, 0); err == nil {
			t.Errorf("%s: decoded as entries without an error", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sqlstore.EncodeEvents([]stint.Event{event(0, "custom", `{"a":1}`), event(1, stint.EventOutput, `{"b":2}`)}).Body, int64(0))
	f.Add(sqlstore.EncodeEvents([]stint.Event{event(0, stint.EventOutput, strings.Repeat("x", 4000))}).Body, base.UnixMicro())
	entries, err := sqlstore.EncodeEntries([]stint.LogEntry{{Timestamp: base, Type: stint.LogAgent, Level: "info", Message: "m", Metadata: map[string]any{"k": "v"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(entries.Body, int64(0))
	f.Fuzz(func(t *testing.T, body []byte, floor int64) {
		if events, err := sqlstore.DecodeEvents(body, 1, floor); err == nil {
			p := sqlstore.EncodeEvents(events)
			again, err := sqlstore.DecodeEvents(p.Body, 1, floor)
			if p.Count == 0 {
				return
			}
			if diff := cmp.Diff(events, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		}
		if entries, err := sqlstore.DecodeEntries(body, floor); err == nil {
			if _, err := sqlstore.EncodeEntries(entries); err != nil {
				t.Error(err)
			}
		}
	})
}
