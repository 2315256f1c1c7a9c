package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/mcp"
)

// journal returns the events of a run that wrote the texts.
func journal(t *testing.T, texts ...string) []stint.Event {
	t.Helper()
	events := []stint.Event{{Seq: 1, Type: stint.EventStatus, Data: json.RawMessage(`{"status":"running"}`)}}
	for i, text := range texts {
		data, err := json.Marshal(stint.OutputData{Content: text})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, stint.Event{Seq: int64(i + 2), Type: stint.EventOutput, Data: data})
	}
	return append(events, stint.Event{Seq: int64(len(texts) + 2), Type: stint.EventComplete, Data: json.RawMessage(`{}`)})
}

// FuzzPieces checks that the concatenated pieces are the whole output for every maximum
// size of a piece.
func FuzzPieces(f *testing.F) {
	f.Add("one\n", "zwölf", "", 3)
	f.Add("", "", "", 1)
	f.Add("日本語", "\x00", "🙂🙂", 1)
	f.Add("abc", "def", "ghi", 3)
	f.Fuzz(func(t *testing.T, a, b, c string, room int) {
		if room < 1 || room > 100 || !utf8.ValidString(a) || !utf8.ValidString(b) || !utf8.ValidString(c) {
			return
		}
		events, got, at := journal(t, a, b, c), "", ""
		for pieces := 0; ; pieces++ {
			text, next, more, err := mcp.Piece(events, at, room)
			if err != nil || pieces > len(a+b+c) {
				t.Fatalf("piece %d after %q: %v", pieces, at, err)
			}
			if len(text) > max(room, utf8.UTFMax) || !utf8.ValidString(text) {
				t.Errorf("the piece %q after %q", text, at)
			}
			got, at = got+text, next
			if !more {
				break
			}
		}
		if got != a+b+c {
			t.Errorf("the pieces are %q, want %q", got, a+b+c)
		}
		if text, next, more, err := mcp.Piece(events, at, room); text != "" || next != at || more || err != nil {
			t.Errorf("after the end comes %q, %q, %v, %v", text, next, more, err)
		}
	})
}

func FuzzPositions(f *testing.F) {
	for _, s := range []string{"", "0.0", "3.5", "3", ".", "-1.0", "1.-1", "01.0", "1.0x", "9223372036854775807.9223372036854775807", "9223372036854775808.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, at string) {
		events := journal(t, "one\n", "two\n")
		text, next, _, err := mcp.Piece(events, at, 100)
		if err != nil {
			if stint.KindOf(err) != stint.KindInvalid {
				t.Errorf("%q gave %v", at, err)
			}
			return
		}
		if !strings.HasSuffix("one\ntwo\n", text) {
			t.Errorf("after %q comes %q, then %q", at, text, next)
		}
	})
}

func TestTextOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		part   string
		goesOn bool
		want   string
		text   bool
	}{
		{"plain", false, "plain", true},
		{"zw\xc3", true, "zw", true},
		{"a\xf0\x9f\x99", true, "a", true},
		{"zw\xc3", false, "zw\xc3", false},
		{"a\xff\xffb", true, "a\xff\xffb", false},
		{"a\x00b", false, "a\x00b", false},
		{"", false, "", false},
		{"\xc3", true, "", false},
	} {
		text, ok := mcp.TextOf([]byte(c.part), c.goesOn)
		if ok != c.text || ok && text != c.want {
			t.Errorf("%q, followed by more: %v, is %q, %v", c.part, c.goesOn, text, ok)
		}
	}
}
