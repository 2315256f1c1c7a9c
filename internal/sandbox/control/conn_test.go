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

// TestProtocolViolationKills checks that a protocol violation of init, which an agent may
// control, kills the sandbox and does not block the server.
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
				// The message has a descriptor that must be closed. Sending
				// fails once the connection is closed.
				if err := w.Send(agentinit.Message{Op: op}, int(write.Fd())); err != nil {
					break
				}
			}
			<-s.Gone() // although the other end is still open
			if !isKilled {
				t.Error("the sandbox was not killed")
			}
			write.Close()
			if op != agentinit.OpEmpty {
				return // the first answers are queued with their descriptors
			}
			if n, err := read.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("the descriptors were not closed: %v", err)
			}
		})
	}
}

// TestExpectedMessages checks that the expected messages are handled.
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

// TestRequestAfterExit checks that a request after init's exit returns the reason
// of the exit rather than a closed socket.
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
		t.Errorf("error %v, want the reason", err)
	}
}

// TestRequestWithCanceledContext checks that an available answer is not returned if the
// caller's context has already ended.
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

// TestWatchRunsAfterStart checks that Watch, which may kill the command, is
// not called before Start returns.
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
		runtime.Gosched() // lets a Watch that does not wait run
	}
	isStarted.Store(true)
	if err := w.Send(agentinit.Message{Op: agentinit.OpStarted}); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
	if !<-watched {
		t.Error("Watch was called before the start")
	}
	if err := unix.Shutdown(w.Control, unix.SHUT_RDWR); err != nil {
		t.Error(err)
	}
	<-s.Gone()
}

// fake returns a connection, and its other end to send messages from.
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
	judge := func(e sandbox.Exit, _ bool) sandbox.Cause { return e.Cause }
	return control.New(conn, control.Config{Owner: -1, Cause: judge, Watch: watch}), &agentinit.Init{Control: fd}
}
