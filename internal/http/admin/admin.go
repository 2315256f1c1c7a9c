// Package admin serves the operator's requests on a Unix socket in the data folder:
// logins, keys, garbage collection, checks of the storage, and stopping the server. Only the owner of
// the data folder and root may use it.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/maintenance"
	"github.com/stint-dev/stint/internal/sealing/keyring"
)

// Config contains the dependencies of the server. All members are required.
type Config struct {
	Auth        *auth.Service
	Keys        *keyring.Keyring
	Maintenance *maintenance.Service
	GCGrace     time.Duration               // default grace period of POST /gc
	URL         string                      // address of the API, which the response to a login contains
	Drain       time.Duration               // how long active runs may continue after Stop
	Ready       func(context.Context) error // returns an error if the server is not ready, as for /readyz
	Stop        func()                      // stops the server; does not wait for the end
	Metrics     http.Handler                // GET /metrics, with the metrics of organisations
	Log         *slog.Logger
}

// server handles the requests.
type server struct{ c Config }

// NewServer returns a server for the listener that Listen returns.
func NewServer(c Config) *http.Server {
	s := &server{c}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /server", s.describe)
	mux.HandleFunc("POST /stop", s.stop)
	mux.HandleFunc("GET /keys", s.listKeys)
	mux.HandleFunc("POST /keys", s.rotateKeys)
	mux.HandleFunc("POST /gc", s.collect)
	mux.HandleFunc("POST /fsck", s.check)
	mux.Handle("GET /metrics", c.Metrics)
	return &http.Server{Handler: ownerOnly(mux), ConnContext: withPeer, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// Listen opens the socket with access for its owner only. It replaces a socket of
// an earlier process. The caller must hold the lock of the data folder, so that the
// earlier process has ended.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	before := unix.Umask(0o177)
	l, err := net.Listen("unix", path)
	unix.Umask(before)
	if err != nil {
		return nil, fmt.Errorf("open login socket (a shorter --data path may help): %w", err)
	}
	return l, nil
}

type peerKey struct{}

// withPeer returns ctx with the credentials of the connection's peer, or ctx itself
// if they cannot be read.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || credErr != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer)
}

// ownerOnly refuses requests unless the peer's user is root or the user of this
// process.
func ownerOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, ok := r.Context().Value(peerKey{}).(*unix.Ucred)
		if !ok || int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
			respond(w, http.StatusForbidden, map[string]string{"error": "Only the owner of the data folder may use this socket."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// decode decodes the request's body into v. If the body is not valid, decode
// responds with status 400 and returns false.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(v); err != nil {
		respond(w, http.StatusBadRequest, map[string]string{"error": "The request is not valid JSON."})
		return false
	}
	return true
}

// fail responds with the message of a *stint.Error, or logs any other error and
// responds with status 500. operation completes the sentence "The server could not".
func (s *server) fail(w http.ResponseWriter, operation string, err error) {
	if public, ok := errors.AsType[*stint.Error](err); ok {
		respond(w, http.StatusBadRequest, map[string]string{"error": public.Message})
		return
	}
	s.c.Log.Error("a request on the socket failed", "operation", operation, "error", err)
	respond(w, http.StatusInternalServerError, map[string]string{"error": "The server could not " + operation + "; its log has the details."})
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}
