// Package jsonlines reads the output of agents that write one JSON object per
// line.
//
// An agent may also write lines that are not JSON, which are returned as text.
// Lines longer than framework.MaxLine are cut. The last line may be incomplete if
// the agent was killed.
package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// Cut is the type of a line that was cut because it is too long, if the part before
// the cut does not contain its type.
const Cut = "cut"

// Line is a pointer to a decoded line. LineType returns the type of the line, or ""
// if it has none.
type Line[T any] interface {
	*T
	LineType() string
}

// Reader reads the output of one run: JSON objects on standard output, and text on
// standard error. It decodes each object into a T. Write and Flush implement those
// methods of framework.Decoder.
type Reader[T any, L Line[T]] struct {
	// Wrote is true after a line on standard output that is not blank. An
	// incomplete object at the end does not count.
	Wrote bool

	take   func(s *framework.Step, kind string, line L, text []byte, cut bool)
	stdout framework.Lines
	stderr framework.StderrReader
}

// NewReader returns a reader that calls take for each object with a type. If cut is
// true, the line was longer than framework.MaxLine, and line has only the members
// before the cut. take must not keep text.
func NewReader[T any, L Line[T]](take func(s *framework.Step, kind string, line L, text []byte, cut bool)) *Reader[T, L] {
	return &Reader[T, L]{take: take}
}

// Write decodes a part of an output stream.
func (r *Reader[T, L]) Write(stream string, p []byte) (s framework.Step) {
	if stream == framework.Stderr {
		return r.stderr.Write(p)
	}
	r.stdout.Write(p, func(text []byte, cut bool) { r.read(&s, text, cut, false) })
	return s
}

// Flush decodes the incomplete last line of a stream. An incomplete object with a
// type, which an agent leaves if it is killed, becomes only a native line of type
// "torn".
func (r *Reader[T, L]) Flush(stream string) (s framework.Step) {
	if stream == framework.Stderr {
		return r.stderr.Flush()
	}
	r.stdout.Flush(func(text []byte, cut bool) { r.read(&s, text, cut, true) })
	return s
}

// Tail returns the last lines of standard error, at most framework.MaxTail bytes.
func (r *Reader[T, L]) Tail() string { return r.stderr.Tail() }

func (r *Reader[T, L]) read(s *framework.Step, text []byte, cut, last bool) {
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	var line T
	whole := decode(text, &line)
	if !whole && (cut || last) {
		decode(wholeMembers(text), &line)
	}
	kind := L(&line).LineType()
	if !whole && !cut && last && kind != "" {
		s.Native = append(s.Native, framework.Native{Type: "torn", Line: string(text)})
		return
	}
	r.Wrote = true
	if kind == "" && cut && bytes.HasPrefix(text, []byte(`{"`)) {
		kind = Cut
	}
	if kind == "" || !whole && !cut {
		s.Events = append(s.Events, framework.TextLine(framework.Stdout, text, cut)...)
		return
	}
	r.take(s, kind, &line, text, cut)
}

// decode decodes text into v and reports whether text is JSON. Members with a wrong
// type stay zero.
func decode(text []byte, v any) bool {
	err := json.Unmarshal(text, v)
	_, mismatch := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || mismatch
}

// wholeMembers returns a JSON object with the complete members of text, which is
// the start of a JSON object.
func wholeMembers(text []byte) []byte {
	in := json.NewDecoder(bytes.NewReader(text))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	end := in.InputOffset()
	for in.More() {
		var value json.RawMessage
		if _, err := in.Token(); err != nil || in.Decode(&value) != nil {
			break
		}
		if in.InputOffset() == int64(len(text)) && !bytes.ContainsAny(value[len(value)-1:], `"}]`) {
			break // a number at the end may be incomplete
		}
		end = in.InputOffset()
	}
	return append(bytes.Clone(text[:end]), '}')
}

// TooLong returns the notice for a line that was cut.
func TooLong() stint.OutputData {
	return transcript.Notice("line_too_long", fmt.Sprintf("The agent wrote a line of more than %d MiB; the rest of it was left out.", framework.MaxLine>>20))
}
