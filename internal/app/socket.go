package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint"
)

// loginRequest is the body of POST /login on the socket.
type loginRequest struct {
	Org           string `json:"org"`
	User          string `json:"user"`
	Name          string `json:"name"`
	ExpiresInDays int    `json:"expiresInDays"`
}

// defaults fills what was left to the server; the user is called as on this
// machine.
func (r *loginRequest) defaults(uid uint32) {
	if r.Org == "" {
		r.Org = "default"
	}
	if r.User == "" {
		r.User = fmt.Sprintf("uid-%d", uid)
		if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
			r.User = u.Username
		}
	}
	if r.Name == "" {
		r.Name = "login"
	}
	if r.ExpiresInDays == 0 {
		r.ExpiresInDays = stint.DefaultTokenDays
	}
}

// loginAnswer is the token and what it stands for.
type loginAnswer struct {
	stint.Token
	URL string `json:"url"`
}

// listenSocket opens the socket for its owner only. A socket that an earlier
// life left is replaced; the folder's lock keeps two servers apart.
func listenSocket(path string) (net.Listener, error) {
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

// peerContext notes who is at the other end of the connection.
func peerContext(ctx context.Context, c net.Conn) context.Context {
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

// socketServer answers whoever owns the data folder, and so the installation:
// logins, what is done with its keys, and the upkeep of its storage.
func (s *server) socketServer(url string) *http.Server {
	a, keys, log := s.auth, s.keyring, s.log
	mux := http.NewServeMux()
	upkeepRoutes(mux, s.upkeep(), s.c.GCGrace, log)
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		var in loginRequest
		if !readSocket(w, r, &in) {
			return
		}
		if peer, ok := r.Context().Value(peerKey{}).(*unix.Ucred); ok {
			in.defaults(peer.Uid)
		}
		token, err := a.Login(r.Context(), in.Org, in.User, in.Name, in.ExpiresInDays)
		if err != nil {
			refuseSocket(w, log, "create a token", err)
			return
		}
		answerSocket(w, http.StatusCreated, loginAnswer{Token: token, URL: url})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		list, err := keys.List(r.Context())
		if err != nil {
			refuseSocket(w, log, "list the keys", err)
			return
		}
		answerSocket(w, http.StatusOK, list)
	})
	mux.HandleFunc("POST /keys", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Org string }
		if !readSocket(w, r, &in) {
			return
		}
		rotated, err := keys.RotateAll(r.Context(), in.Org)
		if err != nil {
			refuseSocket(w, log, "rotate the keys", err)
			return
		}
		answerSocket(w, http.StatusOK, rotated)
	})
	return &http.Server{Handler: ownerOnly(mux), ConnContext: peerContext, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// ownerOnly refuses other users of this machine.
func ownerOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, ok := r.Context().Value(peerKey{}).(*unix.Ucred)
		if !ok || int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
			answerSocket(w, http.StatusForbidden, map[string]string{"error": "Only the owner of the data folder may use this socket."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func readSocket(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(into); err != nil {
		answerSocket(w, http.StatusBadRequest, map[string]string{"error": "The request is no valid JSON."})
		return false
	}
	return true
}

func refuseSocket(w http.ResponseWriter, log *slog.Logger, doing string, err error) {
	if fault, ok := errors.AsType[*stint.Error](err); ok {
		answerSocket(w, http.StatusBadRequest, map[string]string{"error": fault.Message})
		return
	}
	log.Error("asked through the socket", "to", doing, "error", err)
	answerSocket(w, http.StatusInternalServerError, map[string]string{"error": "The server could not " + doing + "; its log has the details."})
}

func answerSocket(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this fails
}
