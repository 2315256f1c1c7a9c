package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxReread is how often a log may be read over in looking for tears. Torn lines
// take as often as objects lie in each other there; lines that are made for it
// would take as often as they have room for beginnings.
const maxReread = 64

// CheckLog says what is wrong with a log of one JSON object a line, as a
// sentence's end. A writer that was killed leaves its last line torn, and the
// one that went on from there wrote its first object right behind the tear:
// both are as they should be.
func CheckLog(content []byte) error {
	left := maxReread * len(content)
	for n := 1; len(content) > 0; n++ {
		line, rest, ended := bytes.Cut(content, []byte{'\n'})
		content = rest
		if text := bytes.TrimSpace(line); len(text) > 0 && ended && !json.Valid(text) && !torn(text, &left) {
			return fmt.Errorf("line %d is not JSON", n)
		}
	}
	return nil
}

// torn reports whether a line is the beginning of an object and then a whole
// one. What it reads comes off left, and with nothing left no line is.
func torn(line []byte, left *int) bool {
	if line[0] != '{' || bytes.IndexByte(line, 0) >= 0 {
		return false
	}
	for at := 1; *left > 0; at++ {
		n := bytes.Index(line[at:], []byte(`{"`))
		if n < 0 {
			return false
		}
		at += n
		read, ok := valid(line[at:])
		if ok {
			return true
		}
		*left -= read
	}
	return false
}

// valid reports whether text is JSON, and how much of one that is not was read
// to know.
func valid(text []byte) (read int, ok bool) {
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return int(syntax.Offset), false
	}
	return len(text), err == nil
}
