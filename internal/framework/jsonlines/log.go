package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxReread bounds the work of finding torn lines: a log is read at most this
// many times. Objects nest less deeply than that; only crafted lines exceed it.
const maxReread = 64

// CheckLog returns an error if a log of one JSON object per line is damaged.
// The error is a clause such as "line 2 is not JSON". A line is valid if it was
// torn by a killed writer: the last line may be incomplete, and a whole object
// may follow an incomplete one on the same line.
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

// torn reports whether a line consists of an incomplete object and then a whole
// one. The bytes read are subtracted from left; if nothing is left, torn
// returns false.
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

// valid reports whether text is JSON. If not, read is the number of bytes
// before the error.
func valid(text []byte) (read int, ok bool) {
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return int(syntax.Offset), false
	}
	return len(text), err == nil
}
