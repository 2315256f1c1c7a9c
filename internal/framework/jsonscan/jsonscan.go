// Package jsonscan answers: what stands in a line of JSON, without reading all
// of it?
//
// Agents write lines of which a decoder needs a few members, and repeat in the
// others what it has seen. A scan finds where each member begins and ends; only
// those that are asked for are decoded.
package jsonscan

import (
	"bytes"
	"encoding/json"
)

// Object is a JSON object whose members were found, not checked. The zero value
// is ready; it keeps its memory from one Read to the next. Its methods return
// parts of what Read was given.
type Object struct{ members []member }

type member struct{ key, value []byte }

// Read finds the members of the object in text. It reports whether there is one,
// with nothing but white space around it. Of one that is cut off, the whole
// members before the cut are found.
func (o *Object) Read(text []byte) bool {
	o.members = o.members[:0]
	p := space(text)
	if len(p) == 0 || p[0] != '{' {
		return false
	}
	p = space(p[1:])
	if len(p) > 0 && p[0] == '}' {
		return len(space(p[1:])) == 0
	}
	for {
		key, rest, ok := value(p)
		if !ok || key[0] != '"' {
			return false
		}
		rest = space(rest)
		if len(rest) == 0 || rest[0] != ':' {
			return false
		}
		found, rest, ok := value(space(rest[1:]))
		if !ok {
			return false
		}
		o.members = append(o.members, member{key[1 : len(key)-1], found})
		rest = space(rest)
		switch {
		case len(rest) == 0:
			return false
		case rest[0] == '}':
			return len(space(rest[1:])) == 0
		case rest[0] != ',':
			return false
		}
		p = space(rest[1:])
	}
}

// Raw is a member's value; nil where there is none.
func (o *Object) Raw(key string) []byte {
	for _, m := range o.members {
		if string(m.key) == key {
			return m.value
		}
	}
	return nil
}

// Text is a member that is a string; empty where it is none.
func (o *Object) Text(key string) string { return Text(o.Raw(key)) }

// Decode puts a member's value into v and reports whether it is there and fits.
func (o *Object) Decode(key string, v any) bool {
	raw := o.Raw(key)
	return raw != nil && json.Unmarshal(raw, v) == nil
}

func space(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\t' || p[0] == '\r' || p[0] == '\n') {
		p = p[1:]
	}
	return p
}

// value cuts the value that p begins with off it.
func value(p []byte) (v, rest []byte, ok bool) {
	if len(p) == 0 {
		return nil, nil, false
	}
	n := 0
	switch p[0] {
	case '"':
		n = stringEnd(p, 0)
	case '{', '[':
		n = compoundEnd(p)
	default:
		for n < len(p) && !ends(p[n]) {
			n++
		}
		if n == len(p) {
			return nil, nil, false // it may go on
		}
	}
	if n <= 0 {
		return nil, nil, false
	}
	return p[:n], p[n:], true
}

// ends reports whether a number or a word ends before c.
func ends(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ':' || c == '"' || c <= ' '
}

// stringEnd is the position behind the string that begins at from, or -1.
func stringEnd(p []byte, from int) int {
	for at := from + 1; ; {
		n := bytes.IndexByte(p[at:], '"')
		if n < 0 {
			return -1
		}
		end := at + n
		slashes := 0
		for end-1-slashes > from && p[end-1-slashes] == '\\' {
			slashes++
		}
		if at = end + 1; slashes%2 == 0 {
			return at
		}
	}
}

// compoundEnd is the position behind the object or array that p begins with, or
// -1.
func compoundEnd(p []byte) int {
	depth := 0
	for at := 0; at < len(p); at++ {
		switch p[at] {
		case '"':
			end := stringEnd(p, at)
			if end < 0 {
				return -1
			}
			at = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return -1
}
