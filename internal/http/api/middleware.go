package api

import (
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

const (
	headerRequestID = "X-Request-Id"
	requestIDPrefix = "req_"
	requestIDBytes  = 16
)

var (
	apiVersion = []string{"v1"}
	noSniff    = []string{"nosniff"}
)

// ServeHTTP handles a request: it sets the common headers and deadlines, recovers
// from panics, records metrics, and calls the endpoint of the path.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h[headerRequestID] = []string{a.requestID(r)}
	h["X-Api-Version"] = apiVersion
	h["X-Content-Type-Options"] = noSniff // browsers must not display JSON or files as a page
	// Remove the write deadline of the previous response on this connection. The
	// handler of that response could not remove it, because net/http writes the
	// last bytes after the handler has returned.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	if r.ContentLength != 0 {
		r = a.withBodyDeadline(w, r)
	}
	rec := &responseWriter{ResponseWriter: w, timeout: a.c.WriteTimeout}
	start := a.c.Now()
	defer func() { a.metrics.observe(r.Method, routeOf(r), rec.status, a.c.Now().Sub(start)) }()
	defer func() {
		if p := recover(); p != nil {
			a.recovered(rec, r, p)
		}
	}()
	if !isCleanPath(r.URL.EscapedPath()) {
		a.notFound(rec, r)
		return
	}
	a.mux.ServeHTTP(rec, r)
}

// requestID returns the request ID in the client's header if it is valid, and
// otherwise a new random request ID.
func (a *api) requestID(r *http.Request) string {
	if given := r.Header[headerRequestID]; len(given) == 1 {
		digits, ok := strings.CutPrefix(given[0], requestIDPrefix)
		if ok && len(digits) == 2*requestIDBytes && strings.Trim(digits, "0123456789abcdef") == "" {
			return given[0]
		}
	}
	var raw [requestIDBytes]byte
	if _, err := io.ReadFull(a.c.Random, raw[:]); err != nil {
		panic("api: read random bytes for a request ID: " + err.Error())
	}
	return requestIDPrefix + hex.EncodeToString(raw[:])
}

// recovered logs a panic and responds with an internal error. If the response has
// begun, it aborts the connection. It passes http.ErrAbortHandler on.
func (a *api) recovered(rec *responseWriter, r *http.Request, p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
		panic(p)
	}
	a.c.Log.LogAttrs(r.Context(), slog.LevelError, "request panicked",
		slog.String("request", rec.Header().Get(headerRequestID)),
		slog.String("method", r.Method), slog.String("route", routeOf(r)),
		slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	if rec.status != 0 {
		panic(http.ErrAbortHandler)
	}
	errorResponse(errInternal).write(rec)
}

// isCleanPath reports whether http.ServeMux serves an escaped path without a
// redirect. The API responds with 404 to other paths instead of redirecting them.
func isCleanPath(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	return p == "/" || path.Clean(p) == strings.TrimSuffix(p, "/")
}

func (a *api) notFound(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, errUnknownPath)
}

var errUnknownPath = &stint.Error{
	Kind: stint.KindNotFound, Code: stint.CodeResourceNotFound,
	Message: "There is nothing at this address. The API's paths begin with /v1.",
}

// routeOf returns the pattern of the request's route for metrics and logs.
func routeOf(r *http.Request) string {
	if r.Pattern == "" || r.Pattern == "/" {
		return "unmatched"
	}
	return r.Pattern
}
