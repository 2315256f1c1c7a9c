package egress

import (
	"context"
	"io"
	"sync"
	"time"
)

const rateBurst = 100 * time.Millisecond // time by which bytes may precede the rate

// rateLimit limits one direction of a run's traffic. A nil rateLimit has no
// limit. It is safe for concurrent use.
type rateLimit struct {
	rate int64 // bytes per second

	mu   sync.Mutex // guards free
	free time.Time  // time at which all bytes so far are within the rate
}

// newRateLimit returns a limit of rate bytes per second, or nil if rate is 0.
func newRateLimit(rate int64) *rateLimit {
	if rate == 0 {
		return nil
	}
	return &rateLimit{rate: rate}
}

// limit returns the beginning of b that may be transferred at once: at most 32 KiB and at
// most the bytes of 100 ms, but at least one byte. Without a limit, it returns b.
func (l *rateLimit) limit(b []byte) []byte {
	if l == nil {
		return b
	}
	return b[:min(int64(len(b)), max(1, min(32<<10, l.rate/10)))]
}

// wait counts n more bytes and waits until they are within the rate, or ctx ends.
func (l *rateLimit) wait(ctx context.Context, n int) {
	if l == nil || n == 0 {
		return
	}
	l.mu.Lock()
	now := time.Now()
	if early := now.Add(-rateBurst); l.free.Before(early) {
		l.free = early
	}
	l.free = l.free.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	due := l.free.Sub(now)
	l.mu.Unlock()
	if due <= 0 {
		return
	}
	t := time.NewTimer(due)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// limitedReader reads from r at a limited rate.
type limitedReader struct {
	r    io.Reader
	rate *rateLimit
	ctx  context.Context //nolint:containedctx // io.Reader has no context argument
}

func (r *limitedReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(r.rate.limit(b))
	r.rate.wait(r.ctx, n)
	return n, err
}
