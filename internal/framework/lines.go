package framework

import "bytes"

// MaxLine is the maximum length of a line in bytes. Longer lines are cut.
const MaxLine = 8 << 20

// Lines splits the output of a stream into lines. The zero value is ready to
// use.
type Lines struct {
	held []byte // start of the incomplete last line, at most MaxLine bytes
	over bool   // the incomplete last line is longer than MaxLine
}

// Write appends p to the stream and calls line for each line that p completes. text
// has no line end. cut is true if the line was longer than MaxLine. The callback
// must not keep text.
func (l *Lines) Write(p []byte, line func(text []byte, cut bool)) {
	for {
		n := bytes.IndexByte(p, '\n')
		if n < 0 {
			l.hold(p)
			return
		}
		if len(l.held) == 0 && !l.over && n <= MaxLine {
			line(trimmed(p[:n]), false)
		} else {
			l.hold(p[:n])
			l.Flush(line)
		}
		p = p[n+1:]
	}
}

// Flush calls line for the incomplete last line, if the stream ends with one.
func (l *Lines) Flush(line func(text []byte, cut bool)) {
	if len(l.held) > 0 || l.over {
		line(trimmed(l.held), l.over)
	}
	if cap(l.held) > 1<<20 {
		l.held = nil // release the memory of a long line
	}
	l.held, l.over = l.held[:0], false
}

func (l *Lines) hold(p []byte) {
	if room := MaxLine - len(l.held); len(p) > room {
		p, l.over = p[:room], true
	}
	l.held = append(l.held, p...)
}

func trimmed(p []byte) []byte { return bytes.TrimSuffix(p, []byte{'\r'}) }
