package s3test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shared is the server of the binary's tests, started by the first that asks.
var shared struct {
	once   sync.Once
	server *Server
	err    error
	count  atomic.Int64
}

// Run runs the tests of a binary, with the server's credentials in the
// environment, stops the shared server and gives the exit code.
func Run(m *testing.M) int {
	for _, pair := range (*Server)(nil).Env() {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// URL is that of a new, empty bucket of the server that all tests of the binary
// share. Whoever breaks things has a Server of its own.
func URL(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = Start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	url, err := shared.server.NewBucket(fmt.Sprintf("bucket-%d", shared.count.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// Own starts a server that lives as long as t, and gives it with the URL of an
// empty bucket.
func Own(t testing.TB) (*Server, string) {
	t.Helper()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := s.NewBucket("bucket")
	if err != nil {
		t.Fatal(err)
	}
	return s, url
}
