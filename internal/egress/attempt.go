package egress

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

var (
	errSpoke = errors.New("egress: the other end spoke first")
	past     = time.Unix(1, 0)
)

// attempt reaches a destination while the client's opening is read, and hears
// whether the other end speaks first. Whoever does decides what the connection
// is, so nobody waits for a guess.
type attempt struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when what follows is final
	route  *route
	err    error
	first  []byte // what the other end said first

	mu      sync.Mutex // guards what follows, and deadlines against each other
	client  net.Conn   // whose opening is read
	opened  bool       // it is known
	spoke   bool       // the other end spoke, or is out of reach
	told    bool       // and read told it
	reached net.Conn
	taken   bool
}

// attempt starts to reach d; r is the way where it is known already.
func (s *Session) attempt(ctx context.Context, d dest, r *route) *attempt {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{cancel: cancel, done: make(chan struct{}), route: r}
	s.work.Go(func() {
		if a.route == nil {
			a.route, a.err = s.reach(ctx, d)
		}
		something := a.greet(ctx)
		close(a.done)
		a.tell(something)
	})
	return a
}

// refusedAttempt is one that never was made.
func refusedAttempt(r *proxy.Refusal) *attempt {
	a := &attempt{cancel: func() {}, done: make(chan struct{}), err: *r}
	close(a.done)
	return a
}

// greet waits for the other end's first bytes until the client opens; true
// when there is something to tell.
func (a *attempt) greet(ctx context.Context) bool {
	if a.err != nil {
		return true
	}
	c := a.route.conn
	context.AfterFunc(ctx, func() { c.Close() })
	a.mu.Lock()
	a.reached = c
	opened := a.opened
	a.mu.Unlock()
	if opened {
		return false
	}
	b := make([]byte, greetingBytes)
	n, err := c.Read(b)
	a.first = b[:n:n]
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// tell interrupts the reading of the client's opening.
func (a *attempt) tell(something bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spoke = a.spoke || something
	if something && !a.opened && a.client != nil {
		_ = a.client.SetReadDeadline(past)
	}
}

// read adds to the client's opening until the deadline; errSpoke when the
// other end spoke, or went out of reach, before it. That is told once.
func (a *attempt) read(c *stream, deadline time.Time) error {
	a.mu.Lock()
	if a.spoke && !a.told {
		a.told = true
		a.mu.Unlock()
		return errSpoke
	}
	a.client = c.Conn
	_ = c.SetReadDeadline(deadline)
	a.mu.Unlock()
	err := c.fill()
	if errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(deadline) {
		return nil // interrupted: the next read tells it
	}
	return err
}

// failed reports whether the destination is known to be out of reach.
func (a *attempt) failed() bool {
	select {
	case <-a.done:
		return a.err != nil
	default:
		return false
	}
}

// refused is the policy's word, where it was known before trying.
func (a *attempt) refused() *proxy.Refusal {
	if !a.failed() {
		return nil
	}
	if r, ok := errors.AsType[proxy.Refusal](a.err); ok {
		return &r
	}
	return nil
}

// heard says that the client's opening is known: the other end need not be
// waited for any longer.
func (a *attempt) heard(c *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened = true
	_ = c.SetReadDeadline(time.Time{})
	if a.reached != nil {
		_ = a.reached.SetReadDeadline(past)
	}
}

// wait gives the way out, or why there is none.
func (a *attempt) wait() (*route, error) {
	<-a.done
	if a.err != nil {
		return nil, a.err
	}
	_ = a.route.conn.SetReadDeadline(time.Time{})
	return a.route, nil
}

// take gives the way out to its one user, who closes it; nil when it is gone.
func (a *attempt) take(ctx context.Context) (*route, error) {
	a.mu.Lock()
	gone := a.taken
	a.taken = true
	a.mu.Unlock()
	if gone {
		return nil, nil
	}
	select {
	case <-a.done:
		return a.wait()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// abandon ends the attempt and what it opened.
func (a *attempt) abandon() {
	a.cancel() // also closes what was reached
	<-a.done
	if a.route != nil {
		a.route.conn.Close()
	}
}
