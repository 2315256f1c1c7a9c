package jsonlines_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
)

type line struct {
	Type string          `json:"type"`
	X    json.RawMessage `json:"x"`
	N    int             `json:"n"`
	Text string          `json:"text"`
}

func (l *line) LineType() string { return l.Type }

// read decodes a complete output. It returns the types and values of the decoded
// lines, the text of the other lines, and the native lines.
func read(output string) (kinds []string, lines []line, text string, native []framework.Native) {
	r := jsonlines.NewReader(func(_ *framework.Step, kind string, l *line, _ []byte, _ bool) {
		kinds, lines = append(kinds, kind), append(lines, *l)
	})
	s := r.Write(framework.Stdout, []byte(output))
	s.Join(r.Flush(framework.Stdout))
	for _, e := range s.Events {
		text += e.Content
	}
	return kinds, lines, text, s.Native
}

func TestReaderDecodesMembers(t *testing.T) {
	t.Parallel()
	kinds, lines, text, _ := read(` {"type":"a","x":{"a":["]","\\",{"b":null}]},"n":-15 , "text" : "h\u00e9"}` + "\r\n" + `{"type":"b","n":"wrong type","text":"after"}` + "\n")
	want := []line{{Type: "a", X: json.RawMessage(`{"a":["]","\\",{"b":null}]}`), N: -15, Text: "hé"}, {Type: "b", Text: "after"}}
	if diff := cmp.Diff(want, lines); diff != "" || !slices.Equal(kinds, []string{"a", "b"}) || text != "" {
		t.Errorf("types %q, text %q, lines (-want +got):\n%s", kinds, text, diff)
	}
}

func TestReaderReturnsOtherLinesAsText(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"hello", "[1]", `"a"`, "null", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":"b`, `{"a":1}`, `{"type":""}`, `{"type":7}`, `{"type":"a"}x`, `{type:"a"}`, `{"type":"a",}`, `{"type" "a"}`, `{"type":"a","x":[}`} {
		if kinds, _, text, native := read(other + "\n"); len(kinds) > 0 || text != other+"\n" || len(native) > 0 {
			t.Errorf("%q: types %q, text %q, native %v", other, kinds, text, native)
		}
	}
	if kinds, _, text, _ := read(" \n\n"); len(kinds) > 0 || text != "" {
		t.Errorf("empty lines: types %q, text %q", kinds, text)
	}
}

func TestReaderKeepsMembersBeforeCut(t *testing.T) {
	t.Parallel()
	for start, want := range map[string]string{
		`{"type":"a","x":1,`: "1", `{"type":"a","x":"b",`: `"b"`, `{"type":"a","x":{"y":1},`: `{"y":1}`, `{"type":"a","x":{"y":1,`: "", `{"type":"a",`: "",
	} {
		kinds, lines, _, _ := read(start + `"rest":"` + strings.Repeat("x", framework.MaxLine) + "\"}\n")
		if !slices.Equal(kinds, []string{"a"}) || string(lines[0].X) != want {
			t.Errorf("%s: types %q, lines %v", start, kinds, lines)
		}
	}
	digits := `{"type":"a","x":"b","n":`
	if _, lines, _, _ := read(digits + strings.Repeat("1", framework.MaxLine) + "}\n"); len(lines) != 1 || string(lines[0].X) != `"b"` || lines[0].N != 0 {
		t.Errorf("a number that is cut: %v", lines)
	}
	if kinds, _, _, _ := read(`{"x":"` + strings.Repeat("x", framework.MaxLine) + "\"}\n"); !slices.Equal(kinds, []string{jsonlines.Cut}) {
		t.Errorf("without a type: %q", kinds)
	}
}

// An incomplete last line is returned as a native line of type "torn" if its type is
// known, and as text otherwise.
func TestReaderReturnsTornLines(t *testing.T) {
	t.Parallel()
	for _, torn := range []string{`{"type":"a","x":1`, `{"type":"a","x":12,`, `{"type":"a","x":"b"`, `{"type":"a","x":{"y":1}`, `{"type":"a","x":tr`, `{"type":"a","x"`} {
		kinds, _, text, native := read(torn)
		if diff := cmp.Diff([]framework.Native{{Type: "torn", Line: torn}}, native); diff != "" || len(kinds) > 0 || text != "" {
			t.Errorf("%s: types %q, text %q, native (-want +got):\n%s", torn, kinds, text, diff)
		}
	}
	if kinds, _, text, native := read(`{"type":"a`); len(kinds) > 0 || text != "{\"type\":\"a\n" || len(native) > 0 {
		t.Errorf("without a type: types %q, text %q, native %v", kinds, text, native)
	}
	if kinds, _, _, _ := read(`{"type":"a"}`); !slices.Equal(kinds, []string{"a"}) {
		t.Errorf("a whole last line: types %q", kinds)
	}
}
