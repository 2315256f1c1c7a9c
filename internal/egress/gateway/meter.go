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

// meter reads an answer as it passes for what it tells of tokens: a JSON text,
// or server-sent events whose data are one each, on a line. It keeps nothing of
// the answer. One goroutine writes to it.
type meter struct {
	events bool
	found  found
	scan   scan
	// of a line that comes in parts
	begun   bool
	matched int // bytes of fieldData that it began with
	data    bool
}

func newMeter(events bool) *meter {
	m := &meter{events: events}
	m.scan.found = &m.found
	return m
}

// Write never fails.
func (m *meter) Write(p []byte) (int, error) {
	if m.events {
		m.lines(p)
	} else {
		m.scan.feed(p)
	}
	return len(p), nil
}

func (m *meter) lines(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		switch {
		case end >= 0 && !m.begun:
			m.line(p[:end])
		case end >= 0:
			m.part(p[:end])
			m.begun = false
		default:
			m.part(p)
			return
		}
		p = p[end+1:]
	}
}

// line reads a whole line; most tell nothing of usage and are passed over.
func (m *meter) line(b []byte) {
	if data, ok := bytes.CutPrefix(b, fieldData); ok && bytes.Contains(data, quoted) {
		m.scan.reset()
		m.scan.feed(data)
	}
}

// part reads more of a line.
func (m *meter) part(b []byte) {
	if !m.begun {
		m.begun, m.data, m.matched = true, true, 0
		m.scan.reset()
	}
	for m.data && m.matched < len(fieldData) && len(b) > 0 {
		m.data = b[0] == fieldData[m.matched]
		m.matched++
		b = b[1:]
	}
	if m.data {
		m.scan.feed(b)
	}
}

// tokens is what one call used; Anthropic tells what went through its cache
// beside the input, others as part of it.
func (m *meter) tokens(anthropic bool) stint.Tokens {
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
