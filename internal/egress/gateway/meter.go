package gateway

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"

	"github.com/stint-dev/stint"
)

var (
	fieldData = []byte("data:")
	quoted    = []byte(`"usage"`)
)

// maxLine is how much of a line that comes in parts is kept, to see whether it
// tells anything before it is read.
const maxLine = 16 << 10

// meter reads an answer as it passes for what it tells of tokens: a JSON text,
// or server-sent events whose data are one each, on a line. One goroutine
// writes to it.
type meter struct {
	events bool
	found  found
	scan   scan
	line   []byte // the beginning of a line
	long   bool   // the line is longer than is kept, and read as it comes
}

func newMeter(events bool) *meter {
	m := &meter{events: events}
	m.scan.found = &m.found
	return m
}

// Write never fails.
func (m *meter) Write(p []byte) (int, error) {
	n := len(p)
	if !m.events {
		m.scan.feed(p)
		return n, nil
	}
	if len(m.line) > 0 || m.long {
		p = m.goOn(p)
	}
	end := bytes.LastIndexByte(p, '\n') + 1
	m.lines(p[:end])
	if end < len(p) {
		m.keep(p[end:])
	}
	return n, nil
}

// goOn reads more of the line that was begun, and gives what follows it.
func (m *meter) goOn(p []byte) []byte {
	part, rest, ended := bytes.Cut(p, []byte{'\n'})
	m.keep(part)
	if ended {
		if !m.long {
			m.lines(m.line)
		}
		m.line, m.long = m.line[:0], false
	}
	return rest
}

// keep adds to the line that was begun.
func (m *meter) keep(part []byte) {
	if m.long {
		m.scan.feed(part)
		return
	}
	m.line = append(m.line, part...)
	if len(m.line) > maxLine {
		m.data(m.line)
		m.line, m.long = m.line[:0], true
	}
}

// data begins to read a line, if it is one of data.
func (m *meter) data(line []byte) {
	m.scan.reset()
	if data, ok := bytes.CutPrefix(line, fieldData); ok {
		m.scan.feed(data)
	} else {
		m.scan.stop()
	}
}

// lines reads whole lines. Most tell nothing of usage and are passed over.
func (m *meter) lines(b []byte) {
	for from := 0; ; {
		at := bytes.Index(b[from:], quoted)
		if at < 0 {
			return
		}
		at += from
		if from = at + len(quoted); !opensObject(b[from:]) {
			continue
		}
		line := b[bytes.LastIndexByte(b[:at], '\n')+1:]
		end := bytes.IndexByte(b[from:], '\n')
		if end < 0 {
			m.data(line)
			return
		}
		from += end
		m.data(line[:len(line)-len(b)+from])
	}
}

// opensObject tells whether an object follows a member's name.
func opensObject(b []byte) bool {
	b, colon := bytes.CutPrefix(bytes.TrimLeft(b, " \t\r"), []byte{':'})
	return colon && bytes.HasPrefix(bytes.TrimLeft(b, " \t\r"), []byte{'{'})
}

// tokens is what one call used, once its answer has ended; Anthropic tells what went through its cache
// beside the input, others as part of it.
func (m *meter) tokens(anthropic bool) stint.Tokens {
	if !m.long {
		m.lines(m.line) // the last one may have no end
	}
	f := &m.found
	t := stint.Tokens{
		InputTokens: f.input, OutputTokens: f.output, CacheReadTokens: f.cacheRead, CacheWriteTokens: f.cacheWrite,
		ReasoningTokens: f.reasoning, ModelCalls: 1,
	}
	if anthropic {
		t.InputTokens += f.cacheRead + f.cacheWrite
	}
	return t
}

// unzipped feeds a meter with what is written to it compressed.
type unzipped struct {
	w    *io.PipeWriter
	work sync.WaitGroup
}

func newUnzipped(m *meter) *unzipped {
	r, w := io.Pipe()
	u := &unzipped{w: w}
	u.work.Go(func() {
		z, err := gzip.NewReader(r)
		if err == nil {
			_, err = io.Copy(m, z) //nolint:gosec // the meter keeps nothing of it
		}
		r.CloseWithError(err) // what cannot be read is not counted, and passes all the same
	})
	return u
}

// Write never fails.
func (u *unzipped) Write(p []byte) (int, error) {
	_, _ = u.w.Write(p)
	return len(p), nil
}

// Close waits until all is read.
func (u *unzipped) Close() error {
	err := u.w.Close()
	u.work.Wait()
	return err
}
