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

// wayOut is what lets sandboxes reach others.
type wayOut struct {
	gate  *egress.Gateway
	trust string // file of the certificates that programs in sandboxes trust
}

// frontDoor is the API as sandboxes reach it. The gate is there before the API
// is, which is made of what the gate is part of.
type frontDoor struct{ api atomic.Pointer[http.Handler] }

// open lets requests in.
func (f *frontDoor) open(api http.Handler) { f.api.Store(&api) }

// ServeHTTP hands a request to the API, once there is one.
func (f *frontDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api := f.api.Load()
	if api == nil {
		http.Error(w, "The server is starting. Try again.", http.StatusServiceUnavailable)
		return
	}
	(*api).ServeHTTP(w, r)
}

// openWayOut opens the gate, and writes down what makes it believed.
func (s *server) openWayOut() (*wayOut, error) {
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
		return nil, fmt.Errorf("open the way out of sandboxes: %w", err)
	}
	return &wayOut{gate: gate, trust: trust}, nil
}

// roots are those by which servers are believed: this machine's, and the
// operator's.
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
		return nil, fmt.Errorf("the file %s of --egress-ca holds no certificate in PEM form", s.c.EgressCA)
	}
	return pool, nil
}
