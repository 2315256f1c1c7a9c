package jsonlines

import (
	"bytes"
	"encoding/json"
)

// Object is a JSON object whose members are decoded on request. The zero value
// is an empty object.
type Object struct{ members map[string]json.RawMessage }

// Read replaces the members by those of the object in text. It reports whether
// text is one JSON object. If the object is cut off, Read returns false, and the
// members before the cut are kept.
func (o *Object) Read(text []byte) bool {
	o.members = nil
	if json.Unmarshal(text, &o.members) == nil && o.members != nil {
		return true
	}
	o.members = map[string]json.RawMessage{}
	in := json.NewDecoder(bytes.NewReader(text))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	for in.More() {
		key, err := in.Token()
		name, isString := key.(string)
		var value json.RawMessage
		if err != nil || !isString || in.Decode(&value) != nil {
			return false
		}
		if in.InputOffset() == int64(len(text)) && !bytes.ContainsAny(value[len(value)-1:], `"}]`) {
			return false // a number may be cut
		}
		o.members[name] = value
	}
	return false
}

// Raw returns the value of a member, or nil.
func (o *Object) Raw(key string) json.RawMessage { return o.members[key] }

// Text returns the value of a member that is a string, or "".
func (o *Object) Text(key string) (text string) {
	if !o.Decode(key, &text) {
		return ""
	}
	return text
}

// Decode decodes a member into v. It reports whether the member exists and fits.
func (o *Object) Decode(key string, v any) bool {
	raw := o.members[key]
	return raw != nil && json.Unmarshal(raw, v) == nil
}

// Elements returns the elements of a member that is an array, or nil.
func (o *Object) Elements(key string) (elements []json.RawMessage) {
	o.Decode(key, &elements)
	return elements
}
