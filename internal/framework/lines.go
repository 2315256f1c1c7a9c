package framework

import "bytes"

// MaxLine is the longest line that Lines gives whole, in bytes; of a longer one
// it gives the beginning.
const MaxLine = 8 << 20

// Lines cuts the output of a stream into lines, whatever their length. The zero
// value is ready.
type Lines struct {
	held []byte
	over bool // the rest of the line is dropped
}

// Write calls line for each line that p completes, without its end; cut says
// that the line went on beyond MaxLine. What line is given is not to be kept.
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

// Flush gives the line that has no end, if there is one.
func (l *Lines) Flush(line func(text []byte, cut bool)) {
	if len(l.held) > 0 || l.over {
		line(trimmed(l.held), l.over)
	}
	if cap(l.held) > 1<<20 {
		l.held = nil // one long line does not hold its memory for ever
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
