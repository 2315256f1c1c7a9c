package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Bounds of the JSON that is checked.
const (
	maxJSON  = 64 << 20
	maxDepth = 1000
)

// decode reads one JSON value, and unlike encoding/json refuses what readers
// of JSON disagree about: a name twice in one object, or anything behind the
// value.
func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := decodeValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON value")
	}
	return v, nil
}

func decodeValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the JSON is nested deeper than %d", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("no valid JSON: %w", err)
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(dec, depth)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := decodeValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return token, nil
}

func decodeObject(dec *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("no valid JSON: %w", err)
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("no valid JSON: %v is no name", key)
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("the member '%s' stands twice in one object", name)
		}
		if object[name], err = decodeValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}

// matches tells what is wrong with a value, or nothing.
//
// The validator that is built into kin-openapi is used, not the JSON Schema
// 2020-12 one that it also offers: that one compiles the schema anew for each
// value, half a millisecond a time. A test holds the document to the keywords
// that the built-in one enforces.
func matches(schema *openapi3.Schema, v any, opts ...openapi3.SchemaValidationOption) []string {
	opts = append(opts, openapi3.MultiErrors(), openapi3.DisableSchemaErrorDetails())
	err := schema.VisitJSON(v, opts...)
	if err == nil {
		return nil
	}
	var faults openapi3.MultiError
	if !errors.As(err, &faults) {
		return []string{err.Error()}
	}
	messages := make([]string, len(faults))
	for i, f := range faults {
		messages[i] = strings.ReplaceAll(f.Error(), "\n", " ")
	}
	return messages
}

// matchesJSON is matches for JSON text.
func matchesJSON(schema *openapi3.Schema, raw []byte, opts ...openapi3.SchemaValidationOption) []string {
	v, err := decode(raw)
	if err != nil {
		return []string{err.Error()}
	}
	return matches(schema, v, opts...)
}
