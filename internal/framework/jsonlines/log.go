package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxReread limits the work of torn: all calls for one log together read at most
// maxReread times the length of the log. Only crafted logs reach the limit.
const maxReread = 64

// CheckLog returns an error if a line of a log of JSON objects is not JSON. The
// error is a clause such as "line 2 is not JSON". CheckLog accepts the traces of
// writers that were killed: the last line may be incomplete, and a line may consist
// of an incomplete object followed by a whole one.
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

// torn reports whether a line consists of an incomplete JSON object followed by a
// whole one. It subtracts the number of bytes that it parses from left, and returns
// false if left reaches 0.
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

// valid reports whether text is JSON. read is the number of bytes that were parsed:
// all of text, or those up to the first syntax error.
func valid(text []byte) (read int, ok bool) {
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return int(syntax.Offset), false
	}
	return len(text), err == nil
}
