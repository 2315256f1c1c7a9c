package app

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/tlsca"
)

// egressDeps contains the dependencies of the worker for the traffic of sandboxes.
type egressDeps struct {
	gate  *egress.Gateway
	trust string // file with the certificates that programs in sandboxes trust
}

// lateHandler is the handler of the API for sandboxes. The egress gateway needs it
// before the API exists, because the API depends on the worker and the worker depends
// on the gateway.
type lateHandler struct{ api atomic.Pointer[http.Handler] }

// set sets the handler that serves the requests from now on.
func (f *lateHandler) set(api http.Handler) { f.api.Store(&api) }

// ServeHTTP passes a request to the handler, or responds 503 before set.
func (f *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api := f.api.Load()
	if api == nil {
		http.Error(w, "The server is starting. Try again.", http.StatusServiceUnavailable)
		return
	}
	(*api).ServeHTTP(w, r)
}

// openEgress opens the egress gateway and writes the file of the certificates that
// programs in sandboxes trust.
func (s *server) openEgress() (*egressDeps, error) {
	ca, err := tlsca.Open(s.data.join("ca.pem"), time.Now)
	if err != nil {
		return nil, fmt.Errorf("open the installation's certificate authority: %w", err)
	}
	var system []byte
	if path := tlsca.SystemBundle("/"); path != "" {
		if system, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read this machine's certificates: %w", err)
		}
	}
	roots, err := s.roots(system)
	if err != nil {
		return nil, err
	}
	trust := s.data.join("trust.pem")
	if err := os.WriteFile(trust+".new", ca.Bundle(system), 0o644); err != nil {
		return nil, fmt.Errorf("write certificates: %w", err)
	}
	if err := os.Rename(trust+".new", trust); err != nil {
		return nil, fmt.Errorf("write certificates: %w", err)
	}
	gate, err := egress.New(egress.Config{
		Deny: s.c.EgressDeny, DenyHost: s.c.EgressNoHost, Authority: ca, Roots: roots,
		MaxConns: s.c.EgressConns, LogEntries: s.c.EgressLog, Bandwidth: int64(s.c.EgressRate), API: &s.inner, Now: time.Now, Logger: s.log,
	})
	if err != nil {
		return nil, fmt.Errorf("open egress: %w", err)
	}
	return &egressDeps{gate: gate, trust: trust}, nil
}

// roots returns the root certificates with which the egress proxy verifies servers: the
// given certificates of this machine and those of the file --egress-ca. Without such a
// file it returns nil, which selects the default of crypto/x509.
func (s *server) roots(system []byte) (*x509.CertPool, error) {
	if s.c.EgressCA == "" {
		return nil, nil
	}
	more, err := os.ReadFile(s.c.EgressCA)
	if err != nil {
		return nil, fmt.Errorf("read --egress-ca: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(system)
	if !pool.AppendCertsFromPEM(more) {
		return nil, fmt.Errorf("the file %s of --egress-ca does not contain a certificate in PEM form", s.c.EgressCA)
	}
	return pool, nil
}
