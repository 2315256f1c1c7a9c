package modeltest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const bodyLimit = 32 << 20 // maximum bytes of a request's body

// Options restrict the requests that a server accepts and set its clock. With the zero
// value, the server accepts all keys and models.
type Options struct {
	Key    string           // if set, requests with another key are refused with 401
	Models []string         // if set, requests for other models are refused with 404
	Now    func() time.Time // returns the current time; nil means time.Now
}

// Server answers model calls. It is safe for concurrent use.
type Server struct {
	// URL is the base URL, http://host:port. Clients for the APIs of OpenAI need
	// URL + "/v1".
	URL string

	options Options
	http    *httptest.Server
	closing chan struct{} // closed by Close, which ends all delays

	mu       sync.Mutex    // guards the fields below
	begun    int           // number of received model calls
	changed  chan struct{} // closed and replaced when a model call arrives
	requests []Request
	strays   []string
	refused  map[[sha256.Size]byte]int // for [[http: CODE*N]]: number of calls by SHA-256 of the conversation
}

// Start starts a server on loopback that accepts every key and model. The server is
// closed at the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is like Start, but the server has the options o.
func StartWith(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{options: o, closing: make(chan struct{}), changed: make(chan struct{}), refused: map[[sha256.Size]byte]int{}}
	if s.options.Now == nil {
		s.options.Now = time.Now
	}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	t.Cleanup(s.Close)
	return s
}

// Close ends delayed answers, stops the server, and waits for all handlers. Further
// calls do nothing. Close must not be called concurrently with itself.
func (s *Server) Close() {
	select {
	case <-s.closing:
		return
	default:
	}
	close(s.closing)
	s.http.Close()
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := dialectOf(r.URL.Path)
	switch {
	case r.Method == http.MethodPost && name != "":
		s.answer(w, r, name)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages/count_tokens"):
		write(w, http.StatusOK, object{"input_tokens": 100})
	case r.URL.Path == "/", strings.HasSuffix(r.URL.Path, "/api/hello"):
		write(w, http.StatusOK, object{"message": "hello"})
	default:
		s.stray(r)
		write(w, http.StatusNotFound, faultAnthropic(http.StatusNotFound, "no "+r.Method+" "+r.URL.Path+" here"))
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, name string) {
	d := dialects[name]
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		write(w, code, d.fault(code, err.Error()))
		return
	}
	p, readErr := d.read(r.URL.Path, body)
	n := s.record(requestOf(r, name, p, body, s.options.Now()))
	script, scriptErr := parse(p.newest())
	if code, err := s.refuse(keyOf(r), p, errors.Join(readErr, scriptErr)); err != nil {
		write(w, code, d.fault(code, err.Error()))
		return
	}
	next := script.next(p)
	if s.refuses(next, name, p) {
		write(w, next.code, d.fault(next.code, fmt.Sprintf("The prompt asked for status %d.", next.code)))
		return
	}
	a := reply(p, script, fmt.Sprintf("%d_%d", p.length, n), s.options.Now())
	play := player{w: w, gone: r.Context().Done(), closing: s.closing, step: next}
	if p.stream {
		play.stream(d.stream(p, a))
	} else {
		play.whole(d.whole(a))
	}
}

func requestOf(r *http.Request, name string, p prompt, body []byte, now time.Time) Request {
	tools := make([]string, len(p.tools))
	for i, t := range p.tools {
		tools[i] = t.full()
	}
	return Request{
		Dialect: name, Path: r.URL.Path, Model: p.model, Key: keyOf(r), Header: r.Header.Clone(),
		UserTurns: len(p.users), Users: p.users, Tools: tools, Body: body, At: now,
	}
}

// refuse returns a status and an error if the request is malformed or the options do not
// allow it. Otherwise, it returns 0 and nil.
func (s *Server) refuse(key string, p prompt, malformed error) (int, error) {
	switch {
	case s.options.Key != "" && key != s.options.Key:
		return http.StatusUnauthorized, errors.New("The server does not accept this key.") //nolint:staticcheck // a sentence for people
	case malformed != nil:
		return http.StatusBadRequest, malformed
	case len(s.options.Models) > 0 && !slices.Contains(s.options.Models, p.model):
		return http.StatusNotFound, fmt.Errorf("model: %s", p.model)
	}
	return 0, nil
}

// refuses reports whether the step refuses this request. For [[http: CODE*N]], it counts
// the requests with the same conversation and returns true for the first N.
func (s *Server) refuses(next step, name string, p prompt) bool {
	if next.code == 0 || next.times == 0 {
		return next.code != 0
	}
	prompt := sha256.Sum256(fmt.Appendf(nil, "%s\x00%q\x00%d", name, p.users, len(p.results)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[prompt]++
	return s.refused[prompt] <= next.times
}

func write(w http.ResponseWriter, code int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
