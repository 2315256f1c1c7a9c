// Package jsonlines answers: how is an agent read that writes a JSON object a
// line?
//
// Such agents are killed in the middle of a line, write lines of any length and
// now and then something that is no JSON at all: nothing of it is lost, and
// nothing of it is taken for what it is not.
package jsonlines

import (
	"bytes"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// Cut is the type of a line that is too long and whose own type was not among
// what was kept of it.
const Cut = "cut"

// Reader reads one run's output: objects on standard output, text on standard
// error. The methods that it shares with framework.Decoder keep that one's
// promises.
type Reader struct {
	// Line is the object that is being taken; of one that was cut, the members
	// before the cut.
	Line Object
	// Wrote says that there was anything on standard output.
	Wrote bool

	take   func(s *framework.Step, kind string, text []byte, cut bool)
	stdout framework.Lines
	stderr framework.StderrReader
}

// NewReader makes a reader. take is called for each object with its member
// "type", which is not empty, and the line that it stands on; cut says that the
// line went on beyond framework.MaxLine. What take is given is not to be kept.
func NewReader(take func(s *framework.Step, kind string, text []byte, cut bool)) *Reader {
	return &Reader{take: take}
}

// Write takes a piece of a stream.
func (r *Reader) Write(stream string, p []byte) (s framework.Step) {
	if stream == framework.Stderr {
		return r.stderr.Write(p)
	}
	r.stdout.Write(p, func(text []byte, cut bool) { r.read(&s, text, cut) })
	return s
}

// Flush takes the end of a stream. An object that the agent was killed in is
// kept as a native line of type "torn", no more.
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

// Tail is the end of what came on standard error.
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

// TooLong tells of a line that was cut.
func TooLong() stint.OutputData {
	return transcript.Notice("line_too_long", fmt.Sprintf("The agent wrote a line of more than %d MiB; the rest of it was left out.", framework.MaxLine>>20))
}
