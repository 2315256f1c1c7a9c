// Package jsonschema validates JSON values against JSON Schemas.
//
// Schemas come from users and values from agents, so both are untrusted, and a running
// validation cannot be interrupted. Therefore the size of a schema is limited, and
// before a value is validated, an upper bound of the work is computed and limited.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Maximum sizes in bytes.
const (
	MaxSchema = 64 << 10  // of a schema
	MaxValue  = 256 << 10 // of a value
)

// ParseResult parses a message that consists of a JSON value, with or without a
// Markdown code fence around it. It returns the value in compact form, or an error if
// the value does not match the schema. The error is a clause such as "it is not a JSON
// value."
func ParseResult(schema json.RawMessage, message string) (json.RawMessage, error) {
	s, err := read(schema)
	if err != nil {
		return nil, err
	}
	text := unfenced(message)
	if len(text) > MaxValue {
		return nil, sentence("it has %d bytes; %d are allowed.", len(text), MaxValue)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, sentence("it is not a JSON value.")
	}
	if s.index.isTooMuch(s.root, value) {
		return nil, sentence("it is too large, or nested too deeply, for a schema with so much to compare.")
	}
	if err := s.resolved.Validate(value); err != nil {
		return nil, sentence("%s.", short(err))
	}
	return normal(text)
}

// CheckSchema returns an error if a schema is invalid or exceeds a limit. The error is a
// clause for users that ends with a full stop.
func CheckSchema(schema json.RawMessage) error {
	_, err := read(schema)
	return err
}

// usableSchema is a valid schema within the limits.
type usableSchema struct {
	root     *jsonschema.Schema
	resolved *jsonschema.Resolved
	index    *index
}

func read(raw json.RawMessage) (usableSchema, error) {
	if len(raw) > MaxSchema {
		return usableSchema{}, sentence("the schema has %d bytes; %d are allowed.", len(raw), MaxSchema)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return usableSchema{}, unreadable(err)
	}
	x, err := newIndex(&s)
	if err != nil {
		return usableSchema{}, err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return usableSchema{}, sentence("the schema cannot be used: %s.", short(err))
	}
	return usableSchema{&s, r, x}, nil
}

// unreadable returns the error for a schema that cannot be decoded because of err.
func unreadable(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return sentence("the schema cannot be read: %s.", short(err))
	case wrong.Field == "":
		return sentence("the schema cannot be read: a schema must be an object, true, or false, and not of type %s.", wrong.Value)
	default:
		return sentence("the schema cannot be read: '%s' cannot be of type %s.", wrong.Field, wrong.Value)
	}
}

// normal returns a JSON value without white space. If a name occurs more than once in
// an object, the last member is kept. Numbers are not changed.
func normal(text string) (json.RawMessage, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, sentence("it is not a JSON value.")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, sentence("it is not a JSON value.")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// sentence returns an error with a text that is shown to users unchanged.
func sentence(format string, args ...any) error { return fmt.Errorf(format, args...) }

// maxError is the maximum length in bytes of an error of the library that users see.
const maxError = 500

// short returns the text of an error of the library, cut to maxError bytes and without
// its full stop.
func short(err error) string {
	text := strings.TrimSuffix(strings.TrimPrefix(err.Error(), "validating root: "), ".")
	if len(text) <= maxError {
		return text
	}
	end := maxError
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + " …"
}

// unfenced returns a text without surrounding white space and without the Markdown code
// fence around it, if any.
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
