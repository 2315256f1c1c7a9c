package framework

import (
	"bytes"
	"path"

	"github.com/stint-dev/stint"
)

// ProgramArgv begins the command line of a framework that needs a program: the
// one that was found, with the words that the definition's command has behind
// its own. name is for where nothing was looked up.
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

// CheckLogs is a State.Check for logs of JSON lines: it leaves other files
// alone.
func CheckLogs(check func(content []byte) error) func(name string, content []byte) error {
	return func(name string, content []byte) error {
		if path.Ext(name) != ".jsonl" {
			return nil
		}
		return check(content)
	}
}

// MaxTail is the most of the end of standard error that StderrReader remembers, in bytes.
const MaxTail = 4 << 10

// StderrReader gives what a program wrote beside its protocol as text, line by line,
// and remembers the end of standard error, where programs tell why they end.
// The zero value is ready.
type StderrReader struct {
	stderr Lines
	tail   []byte
}

// Stderr takes what came on standard error.
func (p *StderrReader) Write(b []byte) (s Step) {
	p.stderr.Write(b, func(text []byte, cut bool) { s.Events = append(s.Events, p.line(text, cut)...) })
	return s
}

// Flush gives the rest of standard error.
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

// Tail is the end of what came on standard error.
func (p *StderrReader) Tail() string { return string(p.tail) }

// TextLine is a line of plain text as events, its end with it.
func TextLine(stream string, text []byte, cut bool) []stint.OutputData {
	line := append([]byte(nil), text...)
	if cut {
		line = append(line, "…"...)
	}
	return Pieces(stream, append(line, '\n'))
}
