package jsonlines_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/framework/jsonlines"
)

func TestReadFindsMembers(t *testing.T) {
	t.Parallel()
	var o jsonlines.Object
	line := `{"a":"x\"}","n":-1.5e3 , "deep" : {"a":["]","\\",{"b":null}]},"u":"h\u00e9","e":"","t":true}`
	if !o.Read([]byte(line)) {
		t.Fatal("not an object")
	}
	got := map[string]string{}
	for _, key := range []string{"a", "n", "deep", "u", "e", "t", "none"} {
		got[key] = string(o.Raw(key))
	}
	want := map[string]string{"a": `"x\"}"`, "n": "-1.5e3", "deep": `{"a":["]","\\",{"b":null}]}`, "u": `"h\u00e9"`, "e": `""`, "t": "true", "none": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`x"}`, "hé", "", ""}, []string{o.Text("a"), o.Text("u"), o.Text("n"), o.Text("none")}); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	var n float64
	if !o.Decode("n", &n) || n != -1500 || o.Decode("a", &n) || o.Decode("none", &n) {
		t.Errorf("decoded %v", n)
	}
}

func TestReadRefusesOthers(t *testing.T) {
	t.Parallel()
	var o jsonlines.Object
	for _, text := range []string{"", " ", "hello", "[1]", `"a"`, "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":"b`, `{"a":1}x`, `{a:1}`, `{"a":1,}`, `{"a" 1}`, `{"a":[}`} {
		if o.Read([]byte(text)) {
			t.Errorf("%q is an object", text)
		}
	}
	if o.Read([]byte(`{"type":"result","is_error":false,"result":"it goes on`)); o.Text("type") != "result" || string(o.Raw("is_error")) != "false" || o.Raw("result") != nil {
		t.Errorf("of a cut object %q, %q, %q were found", o.Raw("type"), o.Raw("is_error"), o.Raw("result"))
	}
}

// FuzzObject compares Object with encoding/json.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":{"b":[1,"}"]},"c":"\\\\"}`, ` { "é" : null } `, `{"a":1,"a":2}`, `{"a`, `{"a":12`, `{"a":"b","c":tru`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var o jsonlines.Object
		found := o.Read(text)
		var want map[string]json.RawMessage
		if !json.Valid(text) || json.Unmarshal(text, &want) != nil || want == nil {
			if found {
				t.Fatalf("%q was read", text)
			}
			return
		}
		if !found {
			t.Fatalf("%q was not read", text)
		}
		for key, value := range want {
			if !bytes.Equal(o.Raw(key), value) {
				t.Errorf("member %q of %q is %q", key, text, o.Raw(key))
			}
		}
	})
}

// FuzzText compares Text with encoding/json.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a\n\u00e9\ud83e\udd8a\ud800x\/"`, `"\q"`, `"\u12"`, `""`, `"é"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o jsonlines.Object
		o.Read(slices.Concat([]byte(`{"a":`), raw, []byte(`}`)))
		var want string
		if utf8.Valid(raw) && len(raw) > 0 && raw[0] == '"' && raw[len(raw)-1] == '"' && json.Unmarshal(raw, &want) == nil && o.Text("a") != want {
			t.Errorf("%q gives %q, want %q", raw, o.Text("a"), want)
		}
	})
}

func TestElements(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][]string{
		`[ 1 , "a,]" ,{"b":[2]}]`: {"1", `"a,]"`, `{"b":[2]}`}, `[]`: nil, `{}`: nil, ``: nil, `["a"`: nil,
	} {
		var o jsonlines.Object
		o.Read([]byte(`{"a":` + raw + `}`))
		var got []string
		for _, e := range o.Elements("a") {
			got = append(got, string(e))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

func TestReadKeepsMembersBeforeCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type":"a","x":1`: "", `{"type":"a","x":12,`: "12", `{"type":"a","x":"b"`: `"b"`, `{"type":"a","x":{"y":1}`: `{"y":1}`, `{"type":"a","x":tr`: "", `{"type":"a","x"`: "",
	} {
		var o jsonlines.Object
		if o.Read([]byte(text)) || o.Text("type") != "a" || string(o.Raw("x")) != want {
			t.Errorf("%s: type %q, x %q", text, o.Text("type"), o.Raw("x"))
		}
	}
}
