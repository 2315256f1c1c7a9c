//go:build linux && (amd64 || arm64)

package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// Config is what the isolator adds to a session.
type Config struct {
	// Owner is the user of the host that owns the command's pipes, which the
	// agent may open anew by /dev/stdout; -1 leaves them to our own.
	Owner int
	// Judge tells the cause of an end, of which the warden knows only the code
	// and whether a term came before. killed: Refuse was called.
	Cause func(e sandbox.Exit, killed bool) sandbox.Cause
	// Processes, if there is one, tells at the command's start how many
	// processes the warden is to allow; see warden.Order.
	Processes func() int64
	// Watch, if there is one, runs from the command's start on. It returns soon
	// after Done or Gone is closed.
	Watch func()
}

// Conn is one sandbox's. Listen runs for its whole life; the other methods
// may be called from several goroutines.
type Conn struct {
	config Config
	socket *socket

	answers chan answer   // the warden's answers, each awaited by one call
	empty   chan struct{} // closed when only the warden lives
	gone    chan struct{} // closed when nothing lives
	done    chan struct{} // closed when the command ended and its output was delivered

	running    chan struct{} // closed when the command was started
	goroutines sync.WaitGroup

	mu      sync.Mutex // guards what follows
	started bool       // Start was called
	killed  bool
	ended   bool
	outputs []*outputCopier
	exit    sandbox.Exit
}

// answer is a message of the warden with what came beside it.
type answer struct {
	agentinit.Message
	files []*os.File
}

// New makes the session of a control socket.
func New(conn *net.UnixConn, c Config) *Conn {
	return &Conn{
		config: c, socket: &socket{conn},
		answers: make(chan answer, 4), // no more answers are ever due
		empty:   make(chan struct{}),
		gone:    make(chan struct{}),
		done:    make(chan struct{}),

		running: make(chan struct{}),
	}
}

// Done is closed when the command ended and its output was delivered.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Gone is closed when nothing lives inside.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Listen obeys the warden's messages until the socket closes, which is when the
// warden has ended, or until the warden says what nobody asked for: the agent
// may have taken its place. Then it calls bury, which sees to it that nothing
// lives any more, and lets all go that wait for the end.
func (c *Conn) Listen(kill func()) {
	defer close(c.gone)
	for {
		m, files, err := c.socket.receive()
		if err != nil || !c.handle(m, files) {
			closeAll(files)
			break
		}
	}
	kill()
	_ = c.socket.conn.Close()
	c.finish(sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL), Cause: sandbox.Lost})
}

// heed takes one message, and tells whether it was due.
func (c *Conn) handle(m agentinit.Message, files []*os.File) bool {
	switch m.Op {
	case agentinit.OpExit:
		closeAll(files) // none are due
		c.finish(exitOf(m))
	case agentinit.OpEmpty:
		select {
		case <-c.empty:
			return false
		default:
			closeAll(files)
			close(c.empty)
		}
	default:
		select {
		case c.answers <- answer{m, files}:
		default:
			return false
		}
	}
	return true
}

func exitOf(m agentinit.Message) sandbox.Exit {
	e := sandbox.Exit{Code: m.Code, Signal: m.Signal, Cause: sandbox.Exited}
	switch {
	case m.Killed:
		e.Cause = sandbox.Killed
	case m.Signal != 0:
		e.Cause = sandbox.Signalled
	}
	return e
}

// finish settles how the command ended; the first call counts. Then what it
// wrote before is delivered, and Wait is let go.
func (c *Conn) finish(e sandbox.Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if !c.started {
		return
	}
	c.exit = e
	c.exit.Cause = c.config.Cause(e, c.killed)
	streams := c.outputs
	for _, st := range streams {
		st.startDeadline()
	}
	c.goroutines.Go(func() {
		for _, st := range streams {
			<-st.delivered
		}
		close(c.done)
	})
}

// Ask sends a message and waits for the answer, which must be want; the text of
// another is the error, or last gives one where the warden died without a word.
func (c *Conn) Request(ctx context.Context, m agentinit.Message, want agentinit.Op, last func() string, files ...*os.File) ([]*os.File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := c.socket.send(m, files...); err != nil && !isClosedConn(err) {
		return nil, err
	}
	return c.await(ctx, want, last)
}

// hungUp tells that there is nobody to hear: the warden has failed, and said
// why, and Listen may have closed the socket since.
func isClosedConn(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

func (c *Conn) await(ctx context.Context, want agentinit.Op, last func() string) ([]*os.File, error) {
	var a answer
	select {
	case a = <-c.answers:
	case <-c.gone:
		select {
		case a = <-c.answers: // its last words
		default:
			return nil, fmt.Errorf("its first process ended: %s", last())
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if a.Op != want {
		closeAll(a.files)
		return nil, errors.New(a.Text)
	}
	return a.files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Wait waits for the command's end.
func (c *Conn) Wait(ctx context.Context) (sandbox.Exit, error) {
	if !c.Started() {
		return sandbox.Exit{}, errors.New("sandbox: Wait before Start")
	}
	select {
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.exit, nil
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("waiting for sandbox: %w", context.Cause(ctx))
	}
}

// Started reports whether Start was called.
func (c *Conn) Started() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

// Refuse marks the sandbox as killed: nothing starts any more.
func (c *Conn) MarkKilled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
}

// Terminate asks all inside to end, and waits until they have or their time is
// up.
func (c *Conn) Terminate(ctx context.Context, grace time.Duration) {
	if err := c.socket.send(agentinit.Message{Op: agentinit.OpTerm}); err != nil {
		return // the warden has ended
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.empty:
	case <-c.gone:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Close ends the socket, for a sandbox whose Listen never ran.
func (c *Conn) Close() { _ = c.socket.conn.Close() }

// Settle waits for the goroutines of this session. Only a writer of the caller
// that does not return can hold one up.
func (c *Conn) WaitOutput(ctx context.Context) error {
	idle := make(chan struct{})
	go func() {
		c.goroutines.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("delivering output: %w", context.Cause(ctx))
	}
}
