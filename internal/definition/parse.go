// Package definition parses and validates agent definitions and the limits of
// runs, resolves ${{ }} references, and encodes the frozen plan of a run.
package definition

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/strictjson"
)

// Parse parses and validates a definition in JSON. The error is a *stint.Error. It
// lists, with its path, every unknown key and every value of a wrong type or, if there
// are none, every invalid value.
func Parse(raw []byte) (*stint.Definition, error) {
	if len(raw) > stint.MaxDefinitionBytes {
		return nil, stint.InvalidParam("definition", "A definition may have %d bytes at most.", stint.MaxDefinitionBytes)
	}
	if !json.Valid(raw) {
		return nil, stint.InvalidParam("definition", "The definition is not valid JSON.")
	}
	var d stint.Definition
	if err := strictjson.Decode("definition", raw, &d, strictjson.Options{RefuseUnknown: true, NullValues: true}); err != nil {
		return nil, err
	}
	if err := stint.JoinErrors(validate(&d)...); err != nil {
		return nil, err
	}
	return &d, nil
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
