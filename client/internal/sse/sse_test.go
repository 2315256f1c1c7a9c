package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/client/internal/sse"
)

func readAll(r io.Reader, limit int) ([]sse.Event, error) {
	in := sse.NewReader(r, limit)
	var events []sse.Event
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   string
		want []sse.Event
	}{
		"one block":                     {"event: output\ndata: {}\nid: 7\n\n", []sse.Event{{"output", []byte("{}"), "7"}}},
		"message is the default type":   {"data: x\n\n", []sse.Event{{"message", []byte("x"), ""}}},
		"lines are joined":              {"data: a\ndata:  b\ndata\n\n", []sse.Event{{"message", []byte("a\n b\n"), ""}}},
		"CR LF":                         {"data: a\r\nid: 1\r\n\r\ndata: b\r\n\r\n", []sse.Event{{"message", []byte("a"), "1"}, {"message", []byte("b"), "1"}}},
		"CR alone":                      {"data: a\rid: 1\r\rdata: b\r\r", []sse.Event{{"message", []byte("a"), "1"}, {"message", []byte("b"), "1"}}},
		"mixed line ends":               {"data: a\r\ndata: b\rdata: c\n\r\n", []sse.Event{{"message", []byte("a\nb\nc"), ""}}},
		"byte order mark":               {"\ufeffdata: a\n\n", []sse.Event{{"message", []byte("a"), ""}}},
		"second byte order mark":        {"\ufeff\ufeffdata: a\n\ndata: b\n\n", []sse.Event{{"message", []byte("b"), ""}}},
		"comments":                      {": hello\n:\ndata: a\n: bye\n\n", []sse.Event{{"message", []byte("a"), ""}}},
		"unknown fields":                {"foo: bar\ndata: a\nretry: 5\n\n", []sse.Event{{"message", []byte("a"), ""}}},
		"block without data is ignored": {"event: status\nid: 3\n\ndata: a\n\n", []sse.Event{{"message", []byte("a"), "3"}}},
		"empty data is an event":        {"data\n\n", []sse.Event{{"message", []byte{}, ""}}},
		"ID with NUL is ignored":        {"id: 4\ndata: a\n\nid: 5\x006\ndata: b\n\n", []sse.Event{{"message", []byte("a"), "4"}, {"message", []byte("b"), "4"}}},
		"cut before the empty line":     {"data: a\n\ndata: b\nid: 2\n", []sse.Event{{"message", []byte("a"), ""}}},
		"cut within a line":             {"data: a\n\ndata: b", []sse.Event{{"message", []byte("a"), ""}}},
		"ID of a cut block is ignored":  {"id: 1\ndata: a\n\nid: 2", []sse.Event{{"message", []byte("a"), "1"}}},
		"empty stream":                  {"", nil},
		"shorter than byte order mark":  {"da", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, r := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(r, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

func TestNextIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for name, in := range map[string]string{
		"one line":   "data: " + long + "\n\n",
		"comment":    ":" + long,
		"many lines": strings.Repeat("data: "+long[:1000]+"\n", 200) + "\n",
	} {
		if _, err := readAll(strings.NewReader(in), 100_000); !errors.Is(err, sse.ErrTooLarge) {
			t.Errorf("%s: error is %v, want %v", name, err, sse.ErrTooLarge)
		}
		if _, err := readAll(strings.NewReader(in), 1<<20); err != nil {
			t.Errorf("%s below the limit: %v", name, err)
		}
	}
}

func TestNextReturnsReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection lost")
	r := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	got, err := readAll(r, 1<<20)
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("got %d events and %v, want 1 and %v", len(got), err, broken)
	}
}

// FuzzNext checks that the reader returns the same events as a naive parser, that the
// events do not depend on the size of the reads, and that no event exceeds the size
// limit.
func FuzzNext(f *testing.F) {
	f.Add([]byte("event: status\ndata: {\"status\":\"running\"}\nid: 2\n\n"))
	f.Add([]byte("\xef\xbb\xbfdata: a\r\n\r\ndata: b\r\rdata\n\n: c\n"))
	f.Add([]byte("\r\n\r\ndata:x\r"))
	const limit = 256
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, wholeErr := readAll(bytes.NewReader(in), limit)
		parts, partsErr := readAll(iotest.OneByteReader(bytes.NewReader(in)), limit)
		if diff := cmp.Diff(whole, parts); diff != "" || !errors.Is(wholeErr, partsErr) {
			t.Errorf("byte by byte: %v, whole: %v (-whole +parts):\n%s", partsErr, wholeErr, diff)
		}
		for _, e := range whole {
			if len(e.Data) > limit {
				t.Errorf("an event has %d bytes, more than the limit of %d", len(e.Data), limit)
			}
		}
		if wholeErr == nil {
			if diff := cmp.Diff(naive(string(in)), whole); diff != "" {
				t.Errorf("differs from the naive parser (-want +got):\n%s", diff)
			}
		}
	})
}

// naive is the naive parser of FuzzNext. It returns the events of a complete stream and
// has no size limit.
func naive(in string) []sse.Event {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(in, "\n")
	var events []sse.Event
	kind, id := "", ""
	var data []string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != nil {
				if kind == "" {
					kind = "message"
				}
				events = append(events, sse.Event{Type: kind, Data: []byte(strings.Join(data, "\n")), ID: id})
			}
			kind, data = "", nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "event":
			kind = value
		case name == "data":
			data = append(data, value)
		case name == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return events
}
