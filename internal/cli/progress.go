package cli

import (
	"fmt"
	"sync"
	"time"
)

// progress shows the progress of a transfer on a terminal. It implements
// transfer.Progress.
type progress struct {
	a    *app
	verb string

	mu      sync.Mutex // guards the fields below
	total   int64      // bytes
	moved   int64
	began   time.Time
	shown   time.Time
	visible bool
}

// redraw is the minimum time between two updates of a progress line.
const redraw = 100 * time.Millisecond

func (a *app) progress(verb string) *progress {
	now := a.Now()
	return &progress{a: a, verb: verb, began: now, shown: now}
}

// Expect sets the number of bytes to transfer.
func (p *progress) Expect(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.moved, p.began = bytes, 0, p.a.Now()
}

// Done adds transferred bytes.
func (p *progress) Done(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += bytes
	now := p.a.Now()
	if p.a.json || !p.a.styled(stderr) || now.Sub(p.shown) < redraw {
		return
	}
	p.shown, p.visible = now, true
	fmt.Fprintf(p.a.Stderr, "\r\x1b[K%s", p.line(now.Sub(p.began)))
}

// line returns the progress after some time, with the rate and the remaining
// time.
func (p *progress) line(elapsed time.Duration) string {
	rate := float64(p.moved) / max(elapsed.Seconds(), 0.001)
	line := fmt.Sprintf("%s %s of %s (%d%%), %s/s", p.verb, bytesText(p.moved), bytesText(p.total),
		min(100, p.moved*100/max(p.total, 1)), bytesText(int64(rate)))
	if left := time.Duration(float64(p.total-p.moved) / max(rate, 1) * float64(time.Second)); left >= time.Second {
		line += ", " + left.Round(time.Second).String() + " left"
	}
	return line
}

// done removes the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.visible {
		fmt.Fprint(p.a.Stderr, "\r\x1b[K")
		p.visible = false
	}
}
