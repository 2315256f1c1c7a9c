// Package strictjson decodes JSON from users.
//
// Unlike encoding/json, Check refuses duplicate members, and Decode distinguishes
// upper and lower case in member names and returns an error that lists every invalid
// value with its path.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// Check returns an error for users unless raw is a JSON object in valid UTF-8
// without duplicate members, nested at most maxDepth levels. param is the name of
// the object in error messages.
func Check(param string, raw []byte, maxDepth int) error {
	if !utf8.Valid(raw) {
		return stint.InvalidParam(param, "The %s is not valid UTF-8.", param)
	}
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return stint.InvalidParam(param, "The %s is not valid JSON, at byte %d: %s.", param, syntax.Offset, syntax)
		}
		return stint.InvalidParam(param, "The %s is not valid JSON.", param)
	}
	if bytes.TrimSpace(raw)[0] != '{' {
		return stint.InvalidParam(param, "The %s must be a JSON object.", param)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return checkValue(decoder, param, maxDepth)
}

// checkValue reads one value and checks that its objects have no duplicate members.
// levels is the maximum number of objects and lists that may be nested in one
// another, including the value itself.
func checkValue(d *json.Decoder, param string, levels int) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if levels == 0 {
		return stint.InvalidParam(param, "The %s is nested too deeply.", param)
	}
	keys := map[string]bool{}
	for d.More() {
		if open == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key := token.(string)
			if keys[key] {
				return stint.InvalidParam(short(key), "The key '%s' occurs twice in the same object.", short(key))
			}
			keys[key] = true
		}
		if err := checkValue(d, param, levels-1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// short returns a key in the form for error messages: shortened if it is long.
func short(key string) string { return stint.Excerpt(key, 64) }
