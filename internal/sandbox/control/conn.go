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

// Config contains the settings and functions that depend on the isolator.
type Config struct {
	// Owner is the host user ID of the agent. This user owns the command's
	// pipes, so that the agent can reopen them as /dev/stdout. -1 stands for
	// the server's user.
	Owner int
	// Cause returns the cause of an exit. It completes the cause in e, which
	// init derives only from the exit status and from OpTerm. killed reports
	// whether MarkKilled was called.
	Cause func(e sandbox.Exit, killed bool) sandbox.Cause
	// Processes, if not nil, returns the value of agentinit.Command.Processes.
	Processes func() int64
	// Watch, if not nil, is called in a goroutine after the command's start. It
	// must return soon after Done or Gone is closed.
	Watch func()
}

// Conn is the connection to one sandbox. One goroutine must run Listen from the
// start of init until Listen returns. The other methods are safe for concurrent
// use.
type Conn struct {
	config Config
	socket *socket

	answers chan answer   // init's answers; each has one waiting call
	empty   chan struct{} // closed when only init is left
	gone    chan struct{} // closed when no process is left
	done    chan struct{} // closed when the command ended and its output was written

	running    chan struct{}  // closed when the command was started
	goroutines sync.WaitGroup // watch, the output copiers, and finish

	mu      sync.Mutex // guards the fields below
	started bool       // Start was called
	killed  bool       // MarkKilled was called
	ended   bool       // the command or the sandbox has ended
	outputs []*outputCopier
	exit    sandbox.Exit
}

// answer is a message from init with its descriptors.
type answer struct {
	agentinit.Message
	files []*os.File
}

// New returns a connection over a control socket, which it owns.
func New(conn *net.UnixConn, c Config) *Conn {
	return &Conn{
		config: c, socket: &socket{conn},
		answers: make(chan answer, 4), // more answers are never pending
		empty:   make(chan struct{}),
		gone:    make(chan struct{}),
		done:    make(chan struct{}),

		running: make(chan struct{}),
	}
}

// Done returns a channel that is closed when the command has ended and its output
// has been written.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Gone returns a channel that is closed when no process is left in the sandbox.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Listen handles messages from init until init ends, which closes the socket, or
// until init violates the protocol, which indicates that an agent controls it. It
// then calls kill, which must end all processes of the sandbox, closes the socket,
// and releases all waiting callers.
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

// handle processes one message and reports whether it was expected.
func (c *Conn) handle(m agentinit.Message, files []*os.File) bool {
	switch m.Op {
	case agentinit.OpExit:
		closeAll(files) // an exit message should have no descriptors
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

// finish records how the command ended. Only the first call has an effect. finish
// does not wait for the remaining output; Wait does.
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

// Request sends a message and waits for the answer, which must be of type want.
// The text of any other answer becomes the error. If init ends without an answer,
// the error contains the result of last. The caller closes the returned files.
func (c *Conn) Request(ctx context.Context, m agentinit.Message, want agentinit.Op, last func() string, files ...*os.File) ([]*os.File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := c.socket.send(m, files...); err != nil && !isClosedConn(err) {
		return nil, err
	}
	a, err := c.await(ctx, func() error { return fmt.Errorf("its first process ended: %s", last()) })
	if err == nil && a.Op != want {
		closeAll(a.files)
		return nil, errors.New(a.Text)
	}
	return a.files, err
}

// isClosedConn reports whether err means that init or Listen has closed the
// connection. Request then still waits, because init may have sent the reason
// before it ended.
func isClosedConn(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// await waits for an answer. If init ends without an answer, await returns the
// error that ended returns.
func (c *Conn) await(ctx context.Context, ended func() error) (answer, error) {
	select {
	case a := <-c.answers:
		return a, nil
	case <-c.gone:
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	select {
	case a := <-c.answers: // init sent it before it ended
		return a, nil
	default:
		return answer{}, ended()
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Wait returns how the command ended, after its output was written. If ctx ends
// first, the error wraps its cause.
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

// MarkKilled marks the sandbox as killed. Start then returns an error.
func (c *Conn) MarkKilled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
}

// Terminate sends SIGTERM to all processes in the sandbox and waits until they
// have ended, the grace period is over, or ctx ends.
func (c *Conn) Terminate(ctx context.Context, grace time.Duration) {
	if err := c.socket.send(agentinit.Message{Op: agentinit.OpTerm}); err != nil {
		return // init has ended
	}
	select {
	case <-c.empty:
	case <-c.gone:
	case <-time.After(grace):
	case <-ctx.Done():
	}
}

// Close closes the socket. It is needed only if Listen was never called.
func (c *Conn) Close() { _ = c.socket.conn.Close() }

// WaitOutput waits for the goroutines of this connection after the sandbox has
// ended. It can block only while a Write of the caller's writer does not return.
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
