// Package jsonlines reads the output of agents that write one JSON object per
// line.
//
// An agent may be killed in the middle of a line, write lines of any length,
// and write lines that are not JSON. Such output is returned as text.
package jsonlines

import (
	"bytes"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// Cut is the type of a line that is too long and has no type in the part that
// was kept.
const Cut = "cut"

// Reader reads the output of one run: objects on standard output, text on
// standard error. Write and Flush follow the contract of framework.Decoder.
type Reader struct {
	// Line is the current object. If the line was cut, Line has the members
	// before the cut.
	Line Object
	// Wrote reports whether there was any standard output.
	Wrote bool

	take   func(s *framework.Step, kind string, text []byte, cut bool)
	stdout framework.Lines
	stderr framework.StderrReader
}

// NewReader returns a reader that calls take for each object with a "type"
// member. cut is true if the line was longer than framework.MaxLine. take must
// not keep text.
func NewReader(take func(s *framework.Step, kind string, text []byte, cut bool)) *Reader {
	return &Reader{take: take}
}

// Write decodes output of a stream.
func (r *Reader) Write(stream string, p []byte) (s framework.Step) {
	if stream == framework.Stderr {
		return r.stderr.Write(p)
	}
	r.stdout.Write(p, func(text []byte, cut bool) { r.read(&s, text, cut) })
	return s
}

// Flush decodes the incomplete last line. An incomplete object, as a killed
// agent leaves it, becomes a native line of type "torn" only.
func (r *Reader) Flush(stream string) (s framework.Step) {
	if stream == framework.Stderr {
		return r.stderr.Flush()
	}
	r.stdout.Flush(func(text []byte, cut bool) {
		if !cut && !r.Line.Read(text) && r.Line.Text("type") != "" {
			s.Native = append(s.Native, framework.Native{Type: "torn", Line: string(text)})
			return
		}
		r.read(&s, text, cut)
	})
	return s
}

// Tail returns the end of standard error.
func (r *Reader) Tail() string { return r.stderr.Tail() }

func (r *Reader) read(s *framework.Step, text []byte, cut bool) {
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	r.Wrote = true
	whole := r.Line.Read(text)
	kind := r.Line.Text("type")
	if kind == "" && cut && bytes.HasPrefix(text, []byte(`{"`)) {
		kind = Cut
	}
	if kind == "" || !whole && !cut {
		s.Events = append(s.Events, framework.TextLine(framework.Stdout, text, cut)...)
		return
	}
	r.take(s, kind, text, cut)
}

// TooLong returns the notice for a line that was cut.
func TooLong() stint.OutputData {
	return transcript.Notice("line_too_long", fmt.Sprintf("The agent wrote a line of more than %d MiB; the rest of it was left out.", framework.MaxLine>>20))
}
