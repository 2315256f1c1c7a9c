package cli

import (
	"fmt"
	"sync"
	"time"
)

// redraw is the minimum time between two updates of a status line.
const redraw = 100 * time.Millisecond

// statusLine is a line on the terminal that each update overwrites.
type statusLine struct {
	a       *app
	shown   time.Time
	visible bool
}

func (a *app) statusLine() *statusLine { return &statusLine{a: a, shown: a.Now()} }

// show prints a text as the status line. It does nothing if the previous update was
// less than redraw ago, if styled returns false for standard error, or if --json is
// set.
func (l *statusLine) show(now time.Time, text func() string) {
	if l.a.json || !l.a.styled(stderr) || now.Sub(l.shown) < redraw {
		return
	}
	l.shown, l.visible = now, true
	fmt.Fprintf(l.a.screen, "\r\x1b[K%s", text())
}

// clear removes the status line from the terminal.
func (l *statusLine) clear() {
	if l.visible {
		fmt.Fprint(l.a.screen, "\r\x1b[K")
		l.visible = false
	}
}

// progress shows the progress of a transfer. It implements transfer.Progress.
type progress struct {
	verb string

	mu     sync.Mutex // guards the fields below
	status *statusLine
	total  int64 // bytes
	moved  int64
	began  time.Time
}

func (a *app) progress(verb string) *progress {
	return &progress{status: a.statusLine(), verb: verb, began: a.Now()}
}

// Expect sets the number of bytes to transfer.
func (p *progress) Expect(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.moved, p.began = bytes, 0, p.status.a.Now()
}

// Done adds transferred bytes.
func (p *progress) Done(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += bytes
	now := p.status.a.Now()
	p.status.show(now, func() string { return p.line(now.Sub(p.began)) })
}

// line returns the text of the status line: the progress, the mean rate during
// elapsed, and the remaining time if it is a second or longer.
func (p *progress) line(elapsed time.Duration) string {
	rate := float64(p.moved) / max(elapsed.Seconds(), 0.001)
	line := fmt.Sprintf("%s %s of %s (%d%%), %s/s", p.verb, bytesText(p.moved), bytesText(p.total),
		min(100, p.moved*100/max(p.total, 1)), bytesText(int64(rate)))
	if left := time.Duration(float64(p.total-p.moved) / max(rate, 1) * float64(time.Second)); left >= time.Second {
		line += ", " + left.Round(time.Second).String() + " left"
	}
	return line
}

// done removes the status line from the terminal.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.clear()
}
