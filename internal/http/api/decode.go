package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

const (
	maxBody  = 1 << 20 // bytes of a JSON body
	maxDepth = 64      // of nesting in a JSON body
)

// readJSON reads the body of a request: one JSON object in UTF-8, without a
// key twice in any object.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength != 0 && !isJSON(r.Header) {
		return nil, &stint.Error{
			Kind: stint.KindUnsupportedMedia, Code: stint.CodeUnsupportedMediaType, Param: "Content-Type",
			Message: "The body must be JSON: send 'Content-Type: application/json' and no Content-Encoding.",
		}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &stint.Error{
			Kind: stint.KindTooLarge, Code: stint.CodeRequestTooLarge,
			Message: "The body is larger than " + stint.Size(tooLarge.Limit).String() + ". Put large inputs into a volume.",
		}
	}
	if err != nil {
		return nil, stint.InvalidParam("body", "The body ended before its time.")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, stint.MissingParam("body", "The body is empty. Send a JSON object.")
	}
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

func isJSON(h http.Header) bool {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset, given := params["charset"]
	encoding := h.Get("Content-Encoding")
	return err == nil && media == "application/json" && (!given || strings.EqualFold(charset, "utf-8")) &&
		(encoding == "" || strings.EqualFold(encoding, "identity"))
}

// checkJSON refuses what encoding/json would take without a word: invalid
// UTF-8, keys that stand twice, deep nesting, anything but an object.
func checkJSON(raw []byte) error {
	if !utf8.Valid(raw) {
		return stint.InvalidParam("body", "The body is not valid UTF-8.")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return stint.InvalidParam("body", "The body is not valid JSON, at byte %d: %s.", syntax.Offset, syntax)
		}
		return stint.InvalidParam("body", "The body is not valid JSON.")
	}
	if first := bytes.TrimSpace(raw)[0]; first != '{' {
		return stint.InvalidParam("body", "The body must be a JSON object.")
	}
	return checkKeys(raw)
}

// checkKeys walks valid JSON and refuses nesting beyond maxDepth and a key
// that stands twice in one object.
func checkKeys(raw []byte) error {
	var open []map[string]bool // the keys of each object around; nil for an array
	isKey := false
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return stint.InvalidParam("body", "The body is nested more than %d levels deep.", maxDepth)
			}
			isKey = raw[i] == '{'
			open = append(open, nil)
			if isKey {
				open[len(open)-1] = map[string]bool{}
			}
		case '}', ']':
			open, isKey = open[:len(open)-1], false
		case ',':
			isKey = open[len(open)-1] != nil
		case '"':
			end := stringEnd(raw, i)
			if isKey {
				key, keys := textOf(raw[i:end]), open[len(open)-1]
				if keys[key] {
					return stint.InvalidParam(shorten(key), "The key '%s' stands twice in the same object.", shorten(key))
				}
				keys[key], isKey = true, false
			}
			i = end - 1
		}
	}
	return nil
}

// stringEnd is the index behind the string that begins at i.
func stringEnd(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func textOf(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return string(quoted) // not reached: the whole is valid
	}
	return s
}

func shorten(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "…"
}

// decodeInto reads a checked JSON object into the struct that target points
// to. Keys match in their exact case, others are ignored, null is as if the
// key were not there. Every member of a wrong type is named with its path.
func decodeInto(raw []byte, target any) error {
	var faults []*stint.Error
	decodeValue(raw, reflect.ValueOf(target).Elem(), "", &faults)
	return stint.JoinErrors(faults...)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func decodeValue(raw []byte, v reflect.Value, at string, faults *[]*stint.Error) {
	if bytes.Equal(raw, []byte("null")) && v.Kind() != reflect.String {
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		decodeValue(raw, v.Elem(), at, faults)
	case v.Kind() == reflect.Struct && !v.Addr().Type().Implements(unmarshaler):
		decodeStruct(raw, v, at, faults)
	case v.Kind() == reflect.Map:
		decodeMap(raw, v, at, faults)
	default:
		if json.Unmarshal(raw, v.Addr().Interface()) != nil || bytes.Equal(raw, []byte("null")) {
			*faults = append(*faults, stint.InvalidParam(at, "'%s' must be %s.", at, wanted(v)))
		}
	}
}

func decodeStruct(raw []byte, v reflect.Value, at string, faults *[]*stint.Error) {
	members, ok := membersOf(raw, at, faults)
	if !ok {
		return
	}
	for i, f := range fieldsOf(v.Type()) {
		if value, given := members[f]; given && !bytes.Equal(value, []byte("null")) {
			decodeValue(value, v.Field(i), within(at, f), faults)
		}
	}
}

func decodeMap(raw []byte, v reflect.Value, at string, faults *[]*stint.Error) {
	members, ok := membersOf(raw, at, faults)
	if !ok {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		element := reflect.New(v.Type().Elem()).Elem()
		decodeValue(members[key], element, within(at, shorten(key)), faults)
		v.SetMapIndex(reflect.ValueOf(key), element)
	}
}

func membersOf(raw []byte, at string, faults *[]*stint.Error) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		*faults = append(*faults, stint.InvalidParam(at, "'%s' must be an object.", at))
		return nil, false
	}
	return members, true
}

// fieldsOf lists the JSON names of a struct's fields.
func fieldsOf(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

func within(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// wanted tells in words what JSON v takes.
func wanted(v reflect.Value) string {
	switch v.Interface().(type) {
	case stint.Size:
		return "a size such as 512MiB or a number of bytes"
	case stint.Time:
		return "a time such as 2026-01-02T15:04:05.000Z"
	case []string:
		return "a list of strings"
	}
	switch v.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "of another type"
}
