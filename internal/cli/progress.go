package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows on a terminal how far a transfer is; elsewhere nothing.
type progress struct {
	a     *app
	verb  string
	total int64 // bytes; 0 when unknown

	mu      sync.Mutex // guards the rest
	moved   int64
	began   time.Time
	shown   time.Time
	visible bool
}

// redraw is the least time between two looks of a progress line.
const redraw = 100 * time.Millisecond

func (a *app) progress(verb string, total int64) *progress {
	now := a.Now()
	return &progress{a: a, verb: verb, total: total, began: now, shown: now}
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += int64(n)
	now := p.a.Now()
	if p.a.json || !p.a.styled(stderr) || now.Sub(p.shown) < redraw {
		return
	}
	p.shown, p.visible = now, true
	line := p.verb + " " + bytesText(p.moved)
	if p.total > 0 {
		line += fmt.Sprintf(" of %s (%d%%)", bytesText(p.total), min(100, p.moved*100/p.total))
	}
	rate := float64(p.moved) / now.Sub(p.began).Seconds()
	fmt.Fprintf(p.a.Stderr, "\r\x1b[K%s, %s/s", line, bytesText(int64(rate)))
}

// done takes the line away.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.visible {
		fmt.Fprint(p.a.Stderr, "\r\x1b[K")
		p.visible = false
	}
}

// writer counts what goes to w.
func (p *progress) writer(w io.Writer) io.Writer { return progressWriter{p, w} }

type progressWriter struct {
	p *progress
	w io.Writer
}

func (w progressWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	w.p.add(n)
	return n, err
}
