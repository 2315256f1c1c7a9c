package strictjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// Options configures Decode.
type Options struct {
	RefuseUnknown bool // unknown members are errors; otherwise they are ignored
	NullValues    bool // null in a map of strings becomes an empty string; otherwise it is an error
}

// Decode decodes a JSON object into the struct that target points to. A member with
// the value null is ignored unless its field is a json.RawMessage. The error lists
// the paths of all values of a wrong type and of all refused members. param is the
// name of the object in error messages.
func Decode(param string, raw []byte, target any, o Options) error {
	d := decoder{options: o}
	members, ok := d.members(raw, param)
	if ok {
		d.decodeMembers(members, reflect.ValueOf(target).Elem(), "")
	}
	return stint.JoinErrors(d.errs...)
}

type decoder struct {
	options Options
	errs    []*stint.Error
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	rawMessage  = reflect.TypeFor[json.RawMessage]()
)

func isNull(raw []byte) bool { return bytes.Equal(raw, []byte("null")) }

// decode decodes raw into v. at is the path of the value. Errors are added to d.errs.
func (d *decoder) decode(raw []byte, v reflect.Value, at string) {
	if isNull(raw) && v.Type() != rawMessage && (v.Kind() != reflect.String || d.options.NullValues) {
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(raw, v.Elem(), at)
	case v.Kind() == reflect.Struct && !v.Addr().Type().Implements(unmarshaler):
		if members, ok := d.members(raw, at); ok {
			d.decodeMembers(members, v, at)
		}
	case v.Kind() == reflect.Map:
		d.decodeMap(raw, v, at)
	case json.Unmarshal(raw, v.Addr().Interface()) != nil || isNull(raw) && v.Kind() == reflect.String:
		d.errs = append(d.errs, stint.InvalidParam(at, "'%s' must be %s.", at, typeName(v)))
	}
}

// members returns the members of an object. If raw is not an object, it adds an error
// to d.errs and returns false.
func (d *decoder) members(raw []byte, at string) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		d.errs = append(d.errs, stint.InvalidParam(at, "'%s' must be an object.", at))
		return nil, false
	}
	return members, true
}

func (d *decoder) decodeMembers(members map[string]json.RawMessage, v reflect.Value, at string) {
	for i, name := range names(v.Type()) {
		raw, ok := members[name]
		if ok && (!isNull(raw) || v.Field(i).Type() == rawMessage) {
			d.decode(raw, v.Field(i), join(at, name))
		}
		delete(members, name)
	}
	if !d.options.RefuseUnknown {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		path := join(at, short(key))
		d.errs = append(d.errs, stint.InvalidParam(path, "Unknown key '%s'.%s", path, suggestion(v.Type(), key)))
	}
}

func (d *decoder) decodeMap(raw []byte, v reflect.Value, at string) {
	members, ok := d.members(raw, at)
	if !ok {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.decode(members[key], element, join(at, short(key)))
		v.SetMapIndex(reflect.ValueOf(key), element)
	}
}

// names returns the JSON name of each field of a struct type, in order.
func names(t reflect.Type) []string {
	all := make([]string, t.NumField())
	for i := range all {
		all[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return all
}

// suggestion returns a sentence with the member name that differs from key only in
// case, or "" if there is none.
func suggestion(t reflect.Type, key string) string {
	for _, name := range names(t) {
		if strings.EqualFold(name, key) {
			return " Did you mean '" + name + "'?"
		}
	}
	return ""
}

func join(at, key string) string { return strings.TrimPrefix(at+"."+key, ".") }

// typeName describes the JSON values that v accepts.
func typeName(v reflect.Value) string {
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
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
