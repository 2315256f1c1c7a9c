package api

import (
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

const (
	headerRequestID = "X-Request-Id"
	requestIDPrefix = "req_"
	requestIDBytes  = 16
)

var apiVersion = []string{"v1"}

// ServeHTTP is the way of every request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h[headerRequestID] = []string{a.requestID(r)}
	h["X-Api-Version"] = apiVersion
	// The last bytes of an answer are sent after its handler, so what bounds them
	// is taken back here, by the request that follows on the connection.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	if r.ContentLength != 0 {
		r = a.patient(w, r)
	}
	rec := &recorder{ResponseWriter: w, timeout: a.c.WriteTimeout}
	start := a.c.Now()
	defer func() {
		if p := recover(); p != nil {
			a.recovered(rec, r, p)
		}
		a.metrics.observe(r.Method, routeOf(r), rec.status, a.c.Now().Sub(start))
	}()
	if !cleanPath(r.URL.EscapedPath()) {
		a.notFound(rec, r)
		return
	}
	a.mux.ServeHTTP(rec, r)
}

// requestID keeps the client's own identifier if it has our form.
func (a *api) requestID(r *http.Request) string {
	if given := r.Header[headerRequestID]; len(given) == 1 {
		digits, ok := strings.CutPrefix(given[0], requestIDPrefix)
		if ok && len(digits) == 2*requestIDBytes && strings.Trim(digits, "0123456789abcdef") == "" {
			return given[0]
		}
	}
	var raw [requestIDBytes]byte
	if _, err := io.ReadFull(a.c.Random, raw[:]); err != nil {
		panic("httpapi: no randomness for a request: " + err.Error())
	}
	return requestIDPrefix + hex.EncodeToString(raw[:])
}

// recovered answers a request whose handler panicked. What was thrown goes to
// the log alone. An answer that has begun is broken off.
func (a *api) recovered(rec *recorder, r *http.Request, p any) {
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
	errorReply(errInternal).write(rec)
}

// cleanPath reports whether an escaped path is as the mux would write it; the
// mux redirects others, which an API must not.
func cleanPath(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	return p == "/" || path.Clean(p) == strings.TrimSuffix(p, "/")
}

func (a *api) notFound(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, errNothingHere)
}

var errNothingHere = &stint.Error{
	Kind: stint.KindNotFound, Code: stint.CodeResourceNotFound,
	Message: "There is nothing at this address. The API's paths begin with /v1.",
}

// routeOf is the pattern that a request matched: a name of few values.
func routeOf(r *http.Request) string {
	if r.Pattern == "" || r.Pattern == "/" {
		return "unmatched"
	}
	return r.Pattern
}

// endpoint is all that stands at one path.
type endpoint struct {
	a       *api
	methods map[string]*route
	allow   string
	public  bool
}

// ServeHTTP keeps its frame small: an event stream rests on it for hours.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handle, c, err := e.admit(w, r)
	if err == nil {
		err = handle(w, r, c)
	}
	if err != nil {
		e.a.fail(w, r, err)
	}
}

// admit finds who calls and what answers.
func (e *endpoint) admit(w http.ResponseWriter, r *http.Request) (handler, *auth.Caller, error) {
	route := e.methods[r.Method]
	if route == nil && r.Method == http.MethodHead {
		route = e.methods[http.MethodGet]
	}
	c := &auth.Caller{}
	if !e.public {
		var err error
		if *c, err = e.a.caller(r, route != nil && route.streamToken); err != nil {
			return nil, nil, err
		}
	}
	if route == nil {
		w.Header().Set("Allow", e.allow)
		return nil, nil, &stint.Error{
			Kind: stint.KindMethodNotAllowed, Code: stint.CodeMethodNotAllowed,
			Message: "This address does not take " + clipMethod(r.Method) + ". It takes " + e.allow + ".",
		}
	}
	if c.RunID != "" && !forRuns[route.method+" "+route.path] {
		return nil, nil, errNotForRuns
	}
	if route.scope != "" {
		if err := c.Require(route.scope); err != nil {
			return nil, nil, err
		}
	}
	return route.handle, c, nil
}

func clipMethod(m string) string {
	if len(m) > 16 {
		return "this method"
	}
	return m
}

// caller finds who makes a request. A stream token in the address counts only
// where the route takes one and no header speaks.
func (a *api) caller(r *http.Request, streamToken bool) (auth.Caller, error) {
	given := r.Header["Authorization"]
	if len(given) == 0 && streamToken {
		if token := r.URL.Query().Get("access_token"); token != "" {
			return a.c.Auth.AuthenticateStream(r.Context(), token, r.PathValue("id"))
		}
	}
	if len(given) != 1 {
		return auth.Caller{}, auth.ErrInvalidKey
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return auth.Caller{}, auth.ErrInvalidKey
	}
	return a.c.Auth.Authenticate(r.Context(), token)
}

// allowed writes the Allow header of a path.
func allowed(methods map[string]*route) string {
	var names []string
	for m := range methods {
		names = append(names, m)
		if m == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// recorder remembers the status of an answer, and bounds how long a client may
// take for each part of it.
type recorder struct {
	http.ResponseWriter
	status  int
	timeout time.Duration
}

// maxPart is how many bytes of an answer have a time of their own.
const maxPart = 1 << 20

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.renew()
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	done := 0
	for {
		w.renew()
		n, err := w.ResponseWriter.Write(p[done:min(len(p), done+maxPart)])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// renew gives the client time for what is written next. What has no deadlines
// is not a connection.
func (w *recorder) renew() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout))
}

// Unwrap lets http.ResponseController reach what is below.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
