// Package schema answers: is a value what was asked for?
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Result reads the JSON value that a message is, with or without a code fence
// around it, and holds it against a JSON Schema. The error is a sentence.
func Result(schema json.RawMessage, message string) (json.RawMessage, error) {
	resolved, err := resolve(schema)
	if err != nil {
		return nil, err
	}
	text := []byte(unfenced(message))
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, errors.New("it is no JSON value.")
	}
	if err := resolved.Validate(value); err != nil {
		return nil, fmt.Errorf("%s.", strings.TrimSuffix(err.Error(), "."))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, errors.New("it is no JSON value.")
	}
	return b.Bytes(), nil
}

// Check tells what is wrong with a schema. The error is a sentence.
func Check(schema json.RawMessage) error {
	_, err := resolve(schema)
	return err
}

func resolve(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w.", err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w.", err)
	}
	return r, nil
}

// unfenced takes a Markdown code fence off a text.
func unfenced(s string) string {
	s = strings.TrimSpace(s)
	inner, fenced := strings.CutPrefix(s, "```")
	if !fenced {
		return s
	}
	_, inner, fenced = strings.Cut(inner, "\n")
	if !fenced {
		return s
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
}
