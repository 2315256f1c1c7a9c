package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/framework/jsonscan"
)

func TestReadFindsMembers(t *testing.T) {
	t.Parallel()
	var o jsonscan.Object
	line := `{"a":"x\"}","n":-1.5e3 , "deep" : {"a":["]","\\",{"b":null}]},"u":"h\u00e9","e":"","t":true}`
	if !o.Read([]byte(line)) {
		t.Fatal("no object")
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

func TestReadOfWhatIsNoObject(t *testing.T) {
	t.Parallel()
	var o jsonscan.Object
	for _, text := range []string{"", " ", "hello", "[1]", `"a"`, "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":"b`, `{"a":1}x`, `{a:1}`, `{"a":1,}`, `{"a" 1}`, `{"a":[}`} {
		if o.Read([]byte(text)) {
			t.Errorf("%q is an object", text)
		}
	}
	if o.Read([]byte(`{"type":"result","is_error":false,"result":"it goes on`)); o.Text("type") != "result" || string(o.Raw("is_error")) != "false" || o.Raw("result") != nil {
		t.Errorf("of a cut object %q, %q, %q were found", o.Raw("type"), o.Raw("is_error"), o.Raw("result"))
	}
}

// FuzzObject holds the scan to encoding/json: what that takes for an object has
// the same members here.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":{"b":[1,"}"]},"c":"\\"}`, ` { "é" : null } `, `{"a":1,"a":2}`, `{"a`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var o jsonscan.Object
		found := o.Read(text)
		var want map[string]json.RawMessage
		if !json.Valid(text) || json.Unmarshal(text, &want) != nil || want == nil {
			return
		}
		if !found {
			t.Fatalf("%q was not read", text)
		}
		if strings.Contains(string(text), `\`) {
			return // keys may be escaped, which are not looked for
		}
		seen := map[string]bool{}
		for key := range want {
			seen[key] = o.Raw(key) != nil
			if !seen[key] && json.Valid([]byte(`"`+key+`"`)) && strings.Contains(string(text), key) {
				t.Errorf("member %q of %q was not found", key, text)
			}
		}
	})
}

func TestCheckLog(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":                                      "",
		"{\"a\":1}\n{\"b\":2}\n":                "",
		"{\"a\":1}\n{\"b\":":                    "",
		"{\"a\":1}\n{\"b\":{\"c\":{\"a\":2}}\n": "",
		"{\"a\":1}\n{\"b\":{\"c\n":              "line 2 is no JSON",
		"hello\n{}\n":                           "line 1 is no JSON",
		"{}\n\n{\"a\":\x00\x00{\"b\":1}\n":      "line 3 is no JSON",
		"{\"type\":\"mode\",\"id\":\"x{\"type\":1}\n": "",
	} {
		got := ""
		if err := jsonscan.CheckLog([]byte(content)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}

// TestCheckLogReadsABoundedAmount, however often a torn line begins anew. Whole
// objects before the tear cost what they are, no more.
func TestCheckLogReadsABoundedAmount(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 300) + `"` + strings.Repeat("x", 50_000) + "\"}\n"
	if err := jsonscan.CheckLog([]byte(deep)); err == nil {
		t.Error("all beginnings of a line were read to its end")
	}
	long := `{"calls":[` + strings.Repeat(`{"a":1},`, 20_000) + `{"a":{"b":1}` + "\n"
	if err := jsonscan.CheckLog([]byte(long)); err != nil {
		t.Errorf("a torn line of many objects: %v", err)
	}
}

// FuzzText holds strings to encoding/json.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a\n\u00e9\ud83e\udd8a\ud800x\/"`, `"\q"`, `"\u12"`, `""`, `"é"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := jsonscan.Text(raw)
		var want string
		if utf8.Valid(raw) && len(raw) > 0 && raw[0] == '"' && raw[len(raw)-1] == '"' && json.Unmarshal(raw, &want) == nil && got != want {
			t.Errorf("%q gives %q, want %q", raw, got, want)
		}
	})
}

func TestElements(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][]string{
		`[ 1 , "a,]" ,{"b":[2]}]`: {"1", `"a,]"`, `{"b":[2]}`}, `[]`: nil, `{}`: nil, ``: nil, `["a"`: {`"a"`},
	} {
		var got []string
		jsonscan.Elements([]byte(raw), func(e []byte) { got = append(got, string(e)) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}
