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

// TestOutOfTurn: a warden whose place the agent has taken may say anything. It
// is buried, and the server lives on.
func TestOutOfTurn(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]agentinit.Op{"empty twice": agentinit.OpEmpty, "answers without questions": agentinit.OpStarted, "an unknown word": "hello"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := fake(t, nil)
			buried := false
			go s.Listen(func() { buried = true })
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			for range 64 {
				// With a descriptor, which nobody asked for either. Who is buried is
				// not heard to the end.
				if err := w.Send(agentinit.Message{Op: op}, int(write.Fd())); err != nil {
					break
				}
			}
			<-s.Gone() // although the fake's end is open
			if !buried {
				t.Error("it was not buried")
			}
			write.Close()
			if op != agentinit.OpEmpty {
				return // the first answers wait, with what came beside them
			}
			if n, err := read.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("its descriptors were not closed: %v", err)
			}
		})
	}
}

// TestLife: what is due is heeded.
func TestLife(t *testing.T) {
	t.Parallel()
	s, w := fake(t, nil)
	go s.Listen(func() {})
	for _, op := range []agentinit.Op{agentinit.OpReady, agentinit.OpStarted, agentinit.OpExit, agentinit.OpEmpty} {
		if err := w.Send(agentinit.Message{Op: op}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Request(t.Context(), agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "silence" }); err != nil {
		t.Error(err)
	}
	if m, _, err := w.Receive(); err != nil || m.Op != agentinit.OpGo {
		t.Errorf("it hears %q: %v", m.Op, err)
	}
	if err := unix.Shutdown(w.Control, unix.SHUT_RDWR); err != nil {
		t.Error(err)
	}
	<-s.Gone()
}

// TestAskingTheEnded: whoever asks late is told why the warden ended, and not
// that a socket is closed.
func TestAskingTheEnded(t *testing.T) {
	t.Parallel()
	s, w := fake(t, nil)
	go s.Listen(func() {})
	if err := unix.Shutdown(w.Control, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	<-s.Gone()
	_, err := s.Request(t.Context(), agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "its last words" })
	if err == nil || !strings.Contains(err.Error(), "its last words") {
		t.Errorf("error %v, want its last words", err)
	}
}

// TestAskingTooLate: an answer that is there already is none for a caller who
// had no more patience before he asked.
func TestAskingTooLate(t *testing.T) {
	t.Parallel()
	cause := errors.New("the caller's reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for range 20 { // among what is ready any may be taken
		s, w := fake(t, nil)
		go s.Listen(func() {})
		for _, op := range []agentinit.Op{agentinit.OpReady, agentinit.OpEmpty, agentinit.OpEmpty} { // the last is not due, and ends it
			if err := w.Send(agentinit.Message{Op: op}); err != nil {
				t.Fatal(err)
			}
		}
		<-s.Gone()
		if _, err := s.Request(ctx, agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "silence" }); !errors.Is(err, cause) {
			t.Fatalf("error %v, want the context's cause", err)
		}
	}
}

// TestWatchFollowsTheStart: what is watched may end the command, but not before
// the caller knows that there is one.
func TestWatchFollowsTheStart(t *testing.T) {
	t.Parallel()
	var told atomic.Bool
	watched := make(chan bool, 1)
	s, w := fake(t, func() { watched <- told.Load() })
	go s.Listen(func() {})
	started := make(chan error, 1)
	go func() { started <- s.Start(t.Context(), sandbox.Command{Argv: []string{"x"}}) }()
	if m, _, err := w.Receive(); err != nil || m.Op != agentinit.OpStart {
		t.Fatalf("it hears %q: %v", m.Op, err)
	}
	for range 1000 {
		runtime.Gosched() // who does not wait gets his turn
	}
	told.Store(true)
	if err := w.Send(agentinit.Message{Op: agentinit.OpStarted}); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
	if !<-watched {
		t.Error("it is watched before it has started")
	}
	if err := unix.Shutdown(w.Control, unix.SHUT_RDWR); err != nil {
		t.Error(err)
	}
	<-s.Gone()
}

// fake is a session, and its other end for a test to speak from.
func fake(t *testing.T, watch func()) (*control.Conn, *agentinit.Init) {
	t.Helper()
	conn, theirs, err := control.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(theirs.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() { unix.Close(fd) })
	judge := func(e sandbox.Exit, _ bool) sandbox.Cause { return e.Cause }
	return control.New(conn, control.Config{Owner: -1, Cause: judge, Watch: watch}), &agentinit.Init{Control: fd}
}
