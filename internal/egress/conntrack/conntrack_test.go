package conntrack_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/egress/conntrack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// piped returns a dial function that creates a pipe, returns one end of the pipe, and stores
// the other end in far.
func piped(far *net.Conn) conntrack.DialFunc {
	return func(context.Context, string, uint16) (net.Conn, string, error) {
		near, other := net.Pipe()
		*far = other
		return near, "allow example.com", nil
	}
}

func TestCloseClosesConnections(t *testing.T) {
	t.Parallel()
	s := conntrack.New(t.Context())
	var first, second net.Conn
	closed, err := s.Dial(t.Context(), "[2001:db8::1]:443", piped(&first))
	if err != nil {
		t.Fatal(err)
	}
	if rule := closed.(*conntrack.Conn).Rule; rule != "allow example.com" {
		t.Errorf("the rule is %q", rule)
	}
	if _, err := s.Dial(t.Context(), "example.com:80", piped(&second)); err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the far end of an open connection: %v", err)
	}
	if _, err := s.Dial(t.Context(), "example.com:80", piped(&first)); !errors.Is(err, conntrack.ErrClosed) {
		t.Errorf("a dial after Close: %v", err)
	}
	s.Close()
}

// TestCloseWaitsForDials closes a set of connections during a dial. Close cancels the dial,
// waits for its end, and closes the resulting connection.
func TestCloseWaitsForDials(t *testing.T) {
	t.Parallel()
	s := conntrack.New(t.Context())
	begun, far := make(chan struct{}), net.Conn(nil)
	result := make(chan error, 1)
	go func() {
		_, err := s.Dial(context.Background(), "example.com:80", func(ctx context.Context, host string, port uint16) (net.Conn, string, error) {
			close(begun)
			<-ctx.Done() // the dial succeeds nevertheless
			return piped(&far)(ctx, host, port)
		})
		result <- err
	}()
	<-begun
	s.Close()
	if err := <-result; !errors.Is(err, conntrack.ErrClosed) {
		t.Errorf("a dial that was in progress: %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("its connection: %v", err)
	}
}

func TestInvalidAddresses(t *testing.T) {
	t.Parallel()
	s := conntrack.New(t.Context())
	defer s.Close()
	for _, address := range []string{"example.com", "example.com:http", "example.com:70000", ""} {
		if _, err := s.Dial(t.Context(), address, nil); err == nil {
			t.Errorf("%q was dialed", address)
		}
	}
}
