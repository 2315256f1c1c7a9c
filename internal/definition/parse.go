// Package definition parses and validates agent definitions and the limits of
// runs, resolves ${{ }} references, and encodes the frozen plan of a run.
package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// Parse parses and validates a definition in JSON. The error is a *stint.Error
// that lists every unknown key, wrong type, and value out of range with its
// path. The identity of a version is the digest of CanonicalJSON.
func Parse(raw []byte) (*stint.Definition, error) {
	if len(raw) > stint.MaxDefinitionBytes {
		return nil, stint.InvalidParam("definition", "A definition may have %d bytes at most.", stint.MaxDefinitionBytes)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, stint.InvalidParam("definition", "The definition is not valid JSON: %v.", err)
	}
	if errs := unknownKeys(value, reflect.TypeFor[stint.Definition](), ""); len(errs) > 0 {
		return nil, stint.JoinErrors(errs...)
	}
	var d stint.Definition
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, typeError(err)
	}
	if err := stint.JoinErrors(validate(&d)...); err != nil {
		return nil, err
	}
	return &d, nil
}

func typeError(err error) *stint.Error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return stint.InvalidParam(t.Field, "'%s' must be %s, not a JSON %s.", t.Field, kindName(t.Type), t.Value)
	}
	return stint.InvalidParam("definition", "The definition cannot be read: %v.", err)
}

func kindName(t reflect.Type) string {
	if t == reflect.TypeFor[stint.Size]() {
		return "a size such as 512MiB or 2GiB"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct, reflect.Pointer:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// unknownKeys returns an error for each key of a JSON value that is not a member
// of t. at is the path of the value.
func unknownKeys(v any, t reflect.Type, at string) []*stint.Error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	object, ok := v.(map[string]any)
	if !ok {
		if at == "" {
			return []*stint.Error{stint.InvalidParam("definition", "A definition is a JSON object.")}
		}
		return nil
	}
	var errs []*stint.Error
	for _, key := range slices.Sorted(maps.Keys(object)) {
		where := strings.TrimPrefix(at+"."+key, ".")
		switch t.Kind() {
		case reflect.Map:
			errs = append(errs, unknownKeys(object[key], t.Elem(), where)...)
		case reflect.Struct:
			member, known := memberOf(t, key)
			if !known {
				errs = append(errs, stint.InvalidParam(where, "Unknown key '%s'.%s", stint.Excerpt(where, 128), nearest(t, key)))
				continue
			}
			errs = append(errs, unknownKeys(object[key], member, where)...)
		}
	}
	return errs
}

func memberOf(t reflect.Type, key string) (reflect.Type, bool) {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == key {
			return f.Type, true
		}
	}
	return nil, false
}

// nearest suggests the member that differs from key only in case.
func nearest(t reflect.Type, key string) string {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.EqualFold(name, key) {
			return " Did you mean '" + name + "'?"
		}
	}
	return ""
}

// CanonicalJSON returns raw with sorted keys and without white space, so that
// equivalent definitions have the same bytes.
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
