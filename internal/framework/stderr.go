package framework

import (
	"bytes"
	"path"

	"github.com/stint-dev/stint"
)

// ProgramArgv returns the start of the command line of a framework's program: the
// program, and the arguments in the definition's command. The program is the path
// in.Program.Path, or else the first word of the definition's command, or else name.
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

// CheckLogs returns a function for State.Check. It applies check to files named
// *.jsonl and accepts all other files.
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

// StderrReader decodes standard error as lines of text. It keeps the last MaxTail
// bytes, which often explain a failure. The zero value is ready to use.
type StderrReader struct {
	stderr Lines
	tail   []byte
}

// Write decodes a part of standard error.
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

// Tail returns the last lines of standard error, without blank lines. It returns at
// most MaxTail bytes.
func (p *StderrReader) Tail() string { return string(p.tail) }

// TextLine returns events with a line of plain text and a line end. If cut is true,
// an ellipsis follows the text.
func TextLine(stream string, text []byte, cut bool) []stint.OutputData {
	line := append([]byte(nil), text...)
	if cut {
		line = append(line, "…"...)
	}
	return Pieces(stream, append(line, '\n'))
}
