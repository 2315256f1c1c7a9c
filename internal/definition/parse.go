// Package definition parses and validates agent definitions and the limits of
// runs, resolves ${{ }} references, and encodes the frozen plan of a run.
package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/strictjson"
)

// Parse parses and validates a definition in JSON. The error is a *stint.Error. It lists,
// with their paths, all unknown keys, values of a wrong type, and invalid values.
func Parse(raw []byte) (*stint.Definition, error) {
	d, errs := Errors(raw)
	if err := stint.JoinErrors(errs...); err != nil {
		return nil, err
	}
	return d, nil
}

// Errors parses a definition in JSON and returns all its errors. If the input is a JSON
// object, it also returns the definition, with the values that have the right type.
func Errors(raw []byte) (*stint.Definition, []*stint.Error) {
	if len(raw) > stint.MaxDefinitionBytes {
		return nil, errorList{stint.InvalidParam("definition", "A definition may have %d bytes at most.", stint.MaxDefinitionBytes)}
	}
	if !json.Valid(raw) {
		return nil, errorList{stint.InvalidParam("definition", "The definition is not valid JSON.")}
	}
	if bytes.TrimSpace(raw)[0] != '{' {
		return nil, errorList{stint.InvalidParam("definition", "'definition' must be an object.")}
	}
	var d stint.Definition
	errs := strictjson.Errors("definition", raw, &d, strictjson.Options{RefuseUnknown: true, NullValues: true, Unsupported: unsupportedKey})
	return &d, AppendErrors(errs, validate(&d)...)
}

// unsupportedKey returns an error for keys that exist but that this version does not
// support.
func unsupportedKey(path string, _ json.RawMessage) *stint.Error {
	if path == "permissions" {
		return stint.InvalidParam(path, "'permissions' is not supported by this version of Stint: agents cannot ask for approval yet. Remove the key.")
	}
	return nil
}

// AppendErrors appends later errors to errs, except those that only follow from an
// earlier error: their parameter is the same, or a part of it, and they are redundant
// for the user.
func AppendErrors(errs []*stint.Error, later ...*stint.Error) []*stint.Error {
	first := errs
	for _, e := range later {
		if e != nil && !slices.ContainsFunc(first, func(earlier *stint.Error) bool { return covers(earlier.Param, e.Param) }) {
			errs = append(errs, e)
		}
	}
	return errs
}

// covers reports whether the parameter is outer or a part of it.
func covers(outer, param string) bool {
	rest, ok := strings.CutPrefix(param, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// CanonicalJSON returns raw with sorted keys and without white space, so that
// equivalent definitions have the same bytes. The digest of these bytes identifies a
// version of an agent.
func CanonicalJSON(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
