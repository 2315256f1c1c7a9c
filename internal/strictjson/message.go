package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/spelling"
)

// suggestion returns a sentence with the member that an unknown key most likely means:
// a member of the same object, or one of the same name elsewhere. It returns "" if
// there is none.
func (d *decoder) suggestion(path, key string, t reflect.Type) string {
	near := spelling.Nearest(key, names(t))
	if near == "" {
		near = find(d.root, key)
	} else {
		near = strings.TrimSuffix(path, short(key)) + near
	}
	if near == "" {
		return ""
	}
	return " Did you mean '" + near + "'?"
}

// find returns the path of the first member with the name below t, or "".
func find(t reflect.Type, name string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	members := names(t)
	for _, member := range members {
		if member == name {
			return member
		}
	}
	for i, member := range members {
		if below := find(t.Field(i).Type, name); below != "" {
			return member + "." + below
		}
	}
	return ""
}

// typeName describes the JSON values that v accepts.
func typeName(v reflect.Value) string {
	switch v.Interface().(type) {
	case stint.Size:
		return "a size such as 512MiB or 2GiB"
	case stint.Time:
		return "a time such as 2026-01-02T15:04:05.000Z"
	}
	switch v.Kind() {
	case reflect.Slice:
		return "a list of strings"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// describe returns a JSON value in the form for error messages. If the value may be a
// secret, which is possible where a string or an object belongs, it returns only the type.
func describe(raw []byte, v reflect.Value) string {
	text := ""
	switch {
	case isNull(raw):
		return "null"
	case raw[0] == '[':
		return "a list"
	case raw[0] == '{':
		return "an object"
	case json.Unmarshal(raw, &text) != nil:
		text = string(raw)
	}
	switch v.Kind() {
	case reflect.Float64, reflect.Int, reflect.Int64, reflect.Struct: // a struct that decodes itself, such as a time
		return "'" + short(text) + "'"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case 't', 'f':
		return text
	}
	return "a number"
}

// sizeHint returns a sentence with the size that a misspelled size most likely means,
// or "".
func sizeHint(v reflect.Value, raw []byte) string {
	var text string
	if _, ok := reflect.TypeAssert[stint.Size](v); !ok || json.Unmarshal(raw, &text) != nil {
		return ""
	}
	number := strings.TrimRight(text, "kmgtibyesKMGTIBYES ")
	unit := strings.ToUpper(strings.TrimSpace(text[len(number):]))
	if unit == "" || !strings.Contains("KMGT", unit[:1]) {
		return ""
	}
	suffix := "iB"
	if unit[1:] == "B" {
		suffix = "B"
	}
	if meant := number + unit[:1] + suffix; isSize(meant) {
		return " Did you mean '" + meant + "'?"
	}
	return ""
}

func isSize(s string) bool {
	_, err := stint.ParseSize(s)
	return err == nil
}
