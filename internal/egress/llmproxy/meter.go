package llmproxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"

	"github.com/stint-dev/stint"
)

var fieldData = []byte("data:")

// perToken is how many bytes stand for a token where nobody tells.
const perToken = 4

// meter reads an answer as it passes for what it tells of tokens: a JSON text,
// or server-sent events whose data are one each, on a line. One goroutine
// writes to it.
type meter struct {
	events bool
	found  found
	scan   scan
	bytes  int64
	begun  int // bytes of fieldData that the line began with; -1: it is not one of data
}

func newMeter(events bool) *meter {
	m := &meter{events: events}
	m.scan.found, m.scan.deltas = &m.found, events
	return m
}

// Write never fails.
func (m *meter) Write(p []byte) (int, error) {
	n := len(p)
	m.bytes += int64(n)
	if !m.events {
		m.scan.feed(p)
		return n, nil
	}
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		m.line(part)
		if ended {
			m.begun = 0
		}
		p = rest
	}
	return n, nil
}

// line reads more of a line.
func (m *meter) line(p []byte) {
	for len(p) > 0 && m.begun >= 0 && m.begun < len(fieldData) {
		if p[0] != fieldData[m.begun] {
			m.begun = -1
			return
		}
		p = p[1:]
		if m.begun++; m.begun == len(fieldData) {
			m.scan.reset()
		}
	}
	if m.begun == len(fieldData) {
		m.scan.feed(p)
	}
}

// tokens is what one call used, once its answer has ended. Where nothing was
// told, it is an estimate from the bytes of the request and of what the model
// said; of an answer that was cut off, it is so much of the output at least.
func (m *meter) tokens(anthropic bool, asked int64, cut bool) stint.Tokens {
	t := m.told(anthropic)
	silent := t.Total() == 0
	if silent {
		t.InputTokens = asked / perToken
	}
	if silent || cut {
		t.OutputTokens = max(t.OutputTokens, m.said()/perToken)
	}
	return t
}

// told is what the answer tells; Anthropic tells what went through its cache
// beside the input, others as part of it.
func (m *meter) told(anthropic bool) stint.Tokens {
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

// said is how many bytes the model said; all, where they are of no known form.
func (m *meter) said() int64 {
	if !m.events && m.found.said == 0 {
		return m.bytes
	}
	return m.found.said
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
