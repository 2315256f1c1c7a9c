package framework

import (
	"bytes"
	"path"

	"github.com/stint-dev/stint"
)

// ProgramArgv returns the first words of the command line of a framework's
// program: the path that was found, or name if there is none, and the arguments
// in the definition's command.
func ProgramArgv(in Input, name string) []string {
	argv := []string{in.Program.Path}
	if argv[0] == "" {
		argv[0] = name
	}
	if c := in.Definition.Command; len(c) > 0 {
		if in.Program.Path == "" {
			argv[0] = c[0]
		}
		argv = append(argv, c[1:]...)
	}
	return argv
}

// CheckLogs returns a State.Check that applies check to files named *.jsonl.
func CheckLogs(check func(content []byte) error) func(name string, content []byte) error {
	return func(name string, content []byte) error {
		if path.Ext(name) != ".jsonl" {
			return nil
		}
		return check(content)
	}
}

// MaxTail is the length of the tail that StderrReader keeps, in bytes.
const MaxTail = 4 << 10

// StderrReader decodes standard error as text, line by line, and keeps its
// tail, which often explains a failure. The zero value is ready to use.
type StderrReader struct {
	stderr Lines
	tail   []byte
}

// Write decodes output.
func (p *StderrReader) Write(b []byte) (s Step) {
	p.stderr.Write(b, func(text []byte, cut bool) { s.Events = append(s.Events, p.line(text, cut)...) })
	return s
}

// Flush decodes the incomplete last line.
func (p *StderrReader) Flush() (s Step) {
	p.stderr.Flush(func(text []byte, cut bool) { s.Events = append(s.Events, p.line(text, cut)...) })
	return s
}

func (p *StderrReader) line(text []byte, cut bool) []stint.OutputData {
	if len(bytes.TrimSpace(text)) > 0 {
		p.tail = append(append(p.tail, text[max(0, len(text)-MaxTail):]...), '\n')
		p.tail = p.tail[max(0, len(p.tail)-MaxTail):]
	}
	return TextLine(Stderr, text, cut)
}

// Tail returns the end of the output.
func (p *StderrReader) Tail() string { return string(p.tail) }

// TextLine returns a line of plain text as events, with its line end.
func TextLine(stream string, text []byte, cut bool) []stint.OutputData {
	line := append([]byte(nil), text...)
	if cut {
		line = append(line, "…"...)
	}
	return Pieces(stream, append(line, '\n'))
}
