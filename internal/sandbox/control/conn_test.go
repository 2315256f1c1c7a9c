//go:build linux && (amd64 || arm64)

package control_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/control"
)

// TestProtocolViolationKills checks that Listen kills the sandbox and does not block if
// init violates the protocol. An agent may have taken control of init.
func TestProtocolViolationKills(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]agentinit.Op{"empty twice": agentinit.OpEmpty, "unexpected answers": agentinit.OpStarted, "unknown message": "hello"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := fake(t, nil)
			isKilled := false
			go s.Listen(func() { isKilled = true })
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			for range 64 {
				// The receiver must close the descriptor in each message. Sending
				// fails after the receiver has closed the connection.
				if err := w.Send(agentinit.Message{Op: op}, int(write.Fd())); err != nil {
					break
				}
			}
			<-s.Gone() // is closed although init's end of the socket is still open
			if !isKilled {
				t.Error("the sandbox was not killed")
			}
			write.Close()
			if op != agentinit.OpEmpty {
				return // the queue of answers still holds open descriptors
			}
			if n, err := read.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("the descriptors were not closed: %v", err)
			}
		})
	}
}

// TestExpectedMessages checks that one message of each kind is accepted, and that
// Request receives its answer.
func TestExpectedMessages(t *testing.T) {
	t.Parallel()
	s, w := fake(t, nil)
	go s.Listen(func() {})
	for _, op := range []agentinit.Op{agentinit.OpReady, agentinit.OpStarted, agentinit.OpExit, agentinit.OpEmpty} {
		if err := w.Send(agentinit.Message{Op: op}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Request(t.Context(), agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "no message" }); err != nil {
		t.Error(err)
	}
	if m, _, err := w.Receive(); err != nil || m.Op != agentinit.OpGo {
		t.Errorf("init receives %q: %v", m.Op, err)
	}
	if err := unix.Shutdown(w.Control, unix.SHUT_RDWR); err != nil {
		t.Error(err)
	}
	<-s.Gone()
}

// TestRequestAfterExit checks that the error of a request after init's exit contains
// the reason of the exit, not only that the socket is closed.
func TestRequestAfterExit(t *testing.T) {
	t.Parallel()
	s, w := fake(t, nil)
	go s.Listen(func() {})
	if err := unix.Shutdown(w.Control, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	<-s.Gone()
	_, err := s.Request(t.Context(), agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "the reason" })
	if err == nil || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("error %v, want one that contains 'the reason'", err)
	}
}

// TestRequestWithCanceledContext checks that Request returns the cause of a canceled
// context even if an answer is available.
func TestRequestWithCanceledContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("the caller's reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for range 20 { // select chooses randomly among ready cases
		s, w := fake(t, nil)
		go s.Listen(func() {})
		for _, op := range []agentinit.Op{agentinit.OpReady, agentinit.OpEmpty, agentinit.OpEmpty} { // the last one is unexpected and closes the connection
			if err := w.Send(agentinit.Message{Op: op}); err != nil {
				t.Fatal(err)
			}
		}
		<-s.Gone()
		if _, err := s.Request(ctx, agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "no message" }); !errors.Is(err, cause) {
			t.Fatalf("error %v, want the context's cause", err)
		}
	}
}

// TestWatchRunsAfterStart checks that Watch, which may kill the command, is not called
// before init reports that the command was started.
func TestWatchRunsAfterStart(t *testing.T) {
	t.Parallel()
	var isStarted atomic.Bool
	watched := make(chan bool, 1)
	s, w := fake(t, func() { watched <- isStarted.Load() })
	go s.Listen(func() {})
	started := make(chan error, 1)
	go func() { started <- s.Start(t.Context(), sandbox.Command{Argv: []string{"x"}}) }()
	if m, _, err := w.Receive(); err != nil || m.Op != agentinit.OpStart {
		t.Fatalf("init receives %q: %v", m.Op, err)
	}
	for range 1000 {
		runtime.Gosched() // gives a premature Watch time to run
	}
	isStarted.Store(true)
	if err := w.Send(agentinit.Message{Op: agentinit.OpStarted}); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
	if !<-watched {
		t.Error("Watch was called before the command was started")
	}
	if err := unix.Shutdown(w.Control, unix.SHUT_RDWR); err != nil {
		t.Error(err)
	}
	<-s.Gone()
}

// fake returns a connection and the init at its other end, which the test controls.
func fake(t *testing.T, watch func()) (*control.Conn, *agentinit.Init) {
	t.Helper()
	conn, remote, err := control.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(remote.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	remote.Close()
	t.Cleanup(func() { unix.Close(fd) })
	cause := func(e sandbox.Exit, _ bool) sandbox.Cause { return e.Cause }
	return control.New(conn, control.Config{Owner: -1, Cause: cause, Watch: watch}), &agentinit.Init{Control: fd}
}
