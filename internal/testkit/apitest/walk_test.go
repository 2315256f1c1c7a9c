package apitest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// recorder is a testing.TB that records the messages of Errorf and does not fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex // guards messages
	messages []string
}

func (l *recorder) Helper() {}

func (l *recorder) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, fmt.Sprintf(format, args...))
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

var seeds = apitest.Seeds{IDs: knownIDs, Names: []string{"shell"}, Paths: []string{"bin/run.sh"}, Requests: 1100, Seed: 1}

func TestWalkOfCorrectServer(t *testing.T) {
	t.Parallel()
	s := serve(t, model{})
	report := apitest.Walk(t, s.URL, token, seeds)
	sent := 0
	for id, statuses := range report {
		reached := id == ""
		for status, n := range statuses {
			sent += n
			reached = reached || status < 400
		}
		if !reached && !strings.HasPrefix(id, "delete") && !strings.HasPrefix(id, "revoke") {
			t.Errorf("%s never succeeded: %v", id, statuses)
		}
	}
	if len(report) < 55 || sent < 1000 {
		t.Errorf("only %d operations and %d requests", len(report), sent)
	}
}

func TestWalkIsDeterministic(t *testing.T) {
	t.Parallel()
	sent := func(seed uint64) []string {
		var mu sync.Mutex // guards lines
		var lines []string
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(io.LimitReader(r.Body, 1000))
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf("%s %s %q %q", r.Method, r.RequestURI, r.Header, raw))
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw), r.Body))
			model{}.ServeHTTP(w, r)
		}))
		few := seeds
		few.Requests, few.Seed = 200, seed
		apitest.Walk(t, s.URL, token, few)
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
	first := sent(7)
	if diff := cmp.Diff(first, sent(7)); diff != "" {
		t.Errorf("the requests with the same seed differ (-first +second):\n%s", diff)
	}
	if cmp.Equal(first, sent(8)) {
		t.Error("the requests with another seed are the same")
	}
}

func TestWalkFindsFaults(t *testing.T) {
	t.Parallel()
	plain := func(w http.ResponseWriter, status int) {
		w.Header().Set("X-Request-Id", "req_"+strings.Repeat("5", 32))
		w.Header().Set("X-API-Version", "v1")
		http.Error(w, "no", status)
	}
	for name, wrong := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"500 on an odd limit": func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.RawQuery, "limit=NaN") {
				return false
			}
			refuse(w, 500, "api_error", "internal_error")
			return true
		},
		"200 on an odd limit": func(_ http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			q.Del("limit")
			r.URL.RawQuery = q.Encode()
			return false
		},
		"an invented cursor is the first page": func(_ http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			q.Del("cursor")
			r.URL.RawQuery = q.Encode()
			return false
		},
		"plain text for an unknown path": func(w http.ResponseWriter, r *http.Request) bool {
			if _, _, _, known := apitest.Find(r); known {
				return false
			}
			plain(w, 404)
			return true
		},
		"200 for OPTIONS": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodOptions {
				return false
			}
			w.WriteHeader(200)
			return true
		},
		"301 for a path that is not clean": func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "//") {
				return false
			}
			http.Redirect(w, r, "/v1/runs", http.StatusMovedPermanently)
			return true
		},
		"400 for an ID that is malformed": func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/run_") {
				return false
			}
			refuse(w, 400, "invalid_request_error", "resource_not_found")
			return true
		},
		"no token needed for secrets": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v1/secrets" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			return false
		},
		"what trails a body is ignored": func(_ http.ResponseWriter, r *http.Request) bool {
			raw, _ := io.ReadAll(r.Body)
			if n := len(raw); n > 2 && raw[n-1] == '}' && raw[n-2] == '}' && !bytes.Contains(raw, []byte("{{")) {
				raw = raw[:n-1]
			}
			r.Body = io.NopCloser(bytes.NewReader(raw))
			return false
		},
		"any Content-Type is JSON": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/versions") {
				r.Header.Set("Content-Type", "application/json")
			}
			return false
		},
		"a connection that is cut": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete {
				panic(http.ErrAbortHandler)
			}
			return false
		},
		"every request is refused with 401": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Request-Id", "req_"+strings.Repeat("5", 32))
			w.Header().Set("X-API-Version", "v1")
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, 401, "authentication_error", "invalid_api_key")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !wrong(w, r) {
					model{}.ServeHTTP(w, r)
				}
			}))
			l := &recorder{TB: t}
			// A walk sends few requests to each operation and may miss the fault.
			// Therefore, the test tries up to five seeds until a walk finds a fault.
			for at := seeds; len(l.messages) == 0 && at.Seed < seeds.Seed+5; at.Seed++ {
				apitest.Walk(l, s.URL, token, at)
			}
			if len(l.messages) == 0 {
				t.Error("the walk found no fault")
			}
		})
	}
}
