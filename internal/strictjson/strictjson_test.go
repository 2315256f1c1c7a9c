package strictjson_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/strictjson"
)

// FuzzCheck tests that Check accepts an input if and only if isAcceptable returns true
// for it. It also decodes each accepted input: errors of Decode must be of kind invalid.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"a":2}`, `{"a":{"b":[{"c":1,"c":2}]}}`, `{"a\u0062":1,"ab":2}`, `{"a":"\"","b":"\\"}`, `[]`, `{"a":1}{}`, `{"a":`, "{\"a\":\"\xff\"}",
		`{"agent":"x","prompt":"y","variables":{"A":"1"},"limits":{"outputBytes":"1MiB"},"priority":3,"metadata":null}`, `{"":{"":[[],{}]}}`, ` {"a" : [1 , 2] } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(bytes.TrimSpace(raw)) == 0 {
			return // the server does not call Check for an empty body
		}
		err := strictjson.Check("body", raw, 64)
		if want := isAcceptable(raw); (err == nil) != want {
			t.Fatalf("%q returned %v, acceptable: %v", raw, err, want)
		}
		if err != nil {
			if stint.KindOf(err) != stint.KindInvalid {
				t.Errorf("%q returned %v", raw, err)
			}
			return
		}
		var n stint.NewRun
		if err := strictjson.Decode("body", raw, &n, strictjson.Options{}); err != nil && stint.KindOf(err) != stint.KindInvalid {
			t.Errorf("%q returned %v", raw, err)
		}
	})
}

// isAcceptable reports whether raw is valid UTF-8 and consists of one JSON object with
// at most 64 levels of nesting and without duplicate keys.
func isAcceptable(raw []byte) bool {
	if !utf8.Valid(raw) || !json.Valid(raw) || bytes.TrimSpace(raw)[0] != '{' {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if !isAcceptableValue(d, 0) {
		return false
	}
	_, err := d.Token()
	return err == io.EOF
}

func isAcceptableValue(d *json.Decoder, depth int) bool {
	token, err := d.Token()
	if err != nil {
		return false
	}
	open, ok := token.(json.Delim)
	if !ok {
		return true
	}
	if depth == 64 {
		return false
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil || seen[key.(string)] {
				return false
			}
			seen[key.(string)] = true
		}
		if !isAcceptableValue(d, depth+1) {
			return false
		}
	}
	_, err = d.Token()
	return err == nil
}
