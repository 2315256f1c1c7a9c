package s3test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shared contains the server that all tests of a test binary use. The first test that
// needs the server starts it.
var shared struct {
	once   sync.Once
	server *Server
	err    error
	count  atomic.Int64
}

// Run runs the tests of a binary with the server's credentials in the
// environment, stops the shared server, and returns the exit code.
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

// URL returns the URL of a new, empty bucket of the server that all tests of the
// binary share.
func URL(t testing.TB) string {
	t.Helper()
	return bucket(t, sharedServer(t).Proxy)
}

// Own returns a new proxy to the shared server and the URL of a new, empty bucket behind
// it. Faults of the proxy affect only the calling test.
func Own(t testing.TB) (*Proxy, string) {
	t.Helper()
	p := newProxy(sharedServer(t))
	t.Cleanup(p.close)
	return p, bucket(t, p)
}

func sharedServer(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = Start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func bucket(t testing.TB, p *Proxy) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", shared.count.Add(1))
	if err := p.server.NewBucket(name); err != nil {
		t.Fatal(err)
	}
	return p.URL(name)
}
