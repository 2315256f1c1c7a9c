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

// Limits of the checked JSON.
const (
	maxJSON  = 64 << 20 // bytes
	maxDepth = 1000     // levels of nesting
)

// decode decodes one JSON value. It returns an error if data follows the value. Unlike
// json.Unmarshal, it also returns an error if an object contains a name twice, because
// JSON parsers differ in the treatment of such objects.
func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := decodeValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("data follows the JSON value")
	}
	return v, nil
}

func decodeValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the JSON is nested deeper than %d", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
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
			return nil, fmt.Errorf("invalid JSON: %w", err)
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("invalid JSON: %v is not a name", key)
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("the member '%s' occurs twice in one object", name)
		}
		if object[name], err = decodeValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}

// matches returns a message for each violation of the schema by v, or nil.
//
// It uses the built-in validator of kin-openapi. kin-openapi also has a validator for
// JSON Schema 2020-12, but that validator compiles the schema for each value, which
// takes half a millisecond. A test checks that the document uses only keywords that the
// built-in validator supports.
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

// matchesJSON is like matches for a value encoded as JSON. If raw is not valid JSON, it
// returns the error of decode as its only message.
func matchesJSON(schema *openapi3.Schema, raw []byte, opts ...openapi3.SchemaValidationOption) []string {
	v, err := decode(raw)
	if err != nil {
		return []string{err.Error()}
	}
	return matches(schema, v, opts...)
}
