package strictjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
)

// Options configures Decode.
type Options struct {
	RefuseUnknown bool // unknown members are errors; otherwise they are ignored
	NullValues    bool // null in a map of strings becomes an empty string; otherwise it is an error
	// Unsupported returns an error for a member that target does not have, and that is
	// refused with a message of its own: path is its path and raw its value. It
	// returns nil for all other members. It is not called for null and can be nil.
	Unsupported func(path string, raw json.RawMessage) *stint.Error
}

// Decode decodes a JSON object into the struct that target points to. A member with
// the value null is ignored unless its field is a json.RawMessage. The error lists
// the paths of all values of a wrong type and of all refused members. param is the
// name of the object in error messages.
func Decode(param string, raw []byte, target any, o Options) error {
	return stint.JoinErrors(Errors(param, raw, target, o)...)
}

// Errors decodes as Decode does, and returns the errors one by one. The fields whose
// values are valid are set even if there are errors.
func Errors(param string, raw []byte, target any, o Options) []*stint.Error {
	root := reflect.ValueOf(target).Elem()
	d := decoder{options: o, root: root.Type()}
	members, ok := d.members(raw, param)
	if ok {
		d.decodeMembers(members, root, "")
	}
	return d.errs
}

type decoder struct {
	options Options
	root    reflect.Type
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
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String && raw[0] == '[':
		d.decodeTexts(raw, v, at)
	case json.Unmarshal(raw, v.Addr().Interface()) != nil || isNull(raw) && v.Kind() == reflect.String:
		d.errs = append(d.errs, stint.InvalidParam(at, "'%s' must be %s, not %s.%s", at, typeName(v), describe(raw, v), sizeHint(v, raw)))
	}
}

// decodeTexts decodes a list of strings. Each element of another type is an error.
func (d *decoder) decodeTexts(raw []byte, v reflect.Value, at string) {
	var elements []json.RawMessage
	_ = json.Unmarshal(raw, &elements) // raw is a valid list
	v.Set(reflect.MakeSlice(v.Type(), len(elements), len(elements)))
	for i, element := range elements {
		d.decode(element, v.Index(i), at+"["+strconv.Itoa(i)+"]")
	}
}

// members returns the members of an object. If raw is not an object, it adds an error
// to d.errs and returns false.
func (d *decoder) members(raw []byte, at string) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		d.errs = append(d.errs, stint.InvalidParam(at, "'%s' must be an object, not %s.", at, describe(bytes.TrimSpace(raw), reflect.Value{})))
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
	if !d.options.RefuseUnknown && d.options.Unsupported == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		d.leftOver(join(at, short(key)), key, members[key], v.Type())
	}
}

// leftOver adds an error for a member without a field, unless such members are ignored.
func (d *decoder) leftOver(path, key string, raw json.RawMessage, t reflect.Type) {
	if d.options.Unsupported != nil && !isNull(raw) {
		if e := d.options.Unsupported(path, raw); e != nil {
			d.errs = append(d.errs, e)
			return
		}
	}
	if d.options.RefuseUnknown {
		d.errs = append(d.errs, stint.InvalidParam(path, "Unknown key '%s'.%s", path, d.suggestion(path, key, t)))
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

func join(at, key string) string { return strings.TrimPrefix(at+"."+key, ".") }
