package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxTears bounds the places at which a torn line is looked at.
const maxTears = 10_000

// CheckLog says what is wrong with a log of one JSON object a line, as a
// sentence's end. A writer that was killed leaves its last line torn, and the
// one that went on from there wrote its first object right behind the tear:
// both are as they should be.
func CheckLog(content []byte) error {
	for n := 1; len(content) > 0; n++ {
		line, rest, ended := bytes.Cut(content, []byte{'\n'})
		content = rest
		if text := bytes.TrimSpace(line); len(text) > 0 && ended && !json.Valid(text) && !torn(text) {
			return fmt.Errorf("line %d is no JSON", n)
		}
	}
	return nil
}

// torn reports whether a line is the beginning of an object and then a whole
// one.
func torn(line []byte) bool {
	if line[0] != '{' || bytes.IndexByte(line, 0) >= 0 {
		return false
	}
	for at, tries := 1, 0; tries < maxTears; tries++ {
		n := bytes.Index(line[at:], []byte(`{"`))
		if n < 0 {
			return false
		}
		if at += n; json.Valid(line[at:]) {
			return true
		}
		at++
	}
	return false
}
