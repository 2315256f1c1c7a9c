// Package jsonschema answers: is a value what was asked for?
//
// Schemas come from users and values from agents, so what validating costs is
// bounded before it begins.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of what is read, in bytes.
const (
	MaxSchema = 64 << 10
	MaxValue  = 256 << 10
)

// ParseResult reads the JSON value that a message is, with or without a code fence
// around it, and holds it against a JSON Schema. The error is a sentence.
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
		return nil, sentence("it is no JSON value.")
	}
	if s.cost.of(value) > maxCost {
		return nil, sentence("it is too large, or nested too deeply, for a schema with so much to compare.")
	}
	if err := s.resolved.Validate(value); err != nil {
		return nil, sentence("%s.", short(err))
	}
	return normal(text)
}

// CheckSchema tells what is wrong with a schema. The error is a sentence.
func CheckSchema(schema json.RawMessage) error {
	_, err := read(schema)
	return err
}

// readSchema is a schema that can be used.
type readSchema struct {
	resolved *jsonschema.Resolved
	cost     cost
}

func read(raw json.RawMessage) (readSchema, error) {
	if len(raw) > MaxSchema {
		return readSchema{}, sentence("the schema has %d bytes; %d are allowed.", len(raw), MaxSchema)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return readSchema{}, sentence("the schema cannot be read: %s.", short(err))
	}
	cost, err := costOf(&s)
	if err != nil {
		return readSchema{}, err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return readSchema{}, sentence("the schema cannot be used: %s.", short(err))
	}
	return readSchema{r, cost}, nil
}

// normal writes a value without spaces and with each name once, numbers as they
// are.
func normal(text string) (json.RawMessage, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, sentence("it is no JSON value.")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, sentence("it is no JSON value.")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// sentence makes an error that a user reads as it is.
func sentence(format string, args ...any) error { return fmt.Errorf(format, args...) }

// maxError is how much of a library's error users see, in bytes.
const maxError = 500

// short is an error without its full stop.
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
