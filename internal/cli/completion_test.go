package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestCompletionIsBounded checks that a completion ends without candidates and without
// messages if the server fails or does not answer.
func TestCompletionIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, answer := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		},
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"unavailable for an hour": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		for _, words := range [][]string{{"runs", "show"}, {"run"}, {"artifact", "pull"}, {"volume", "versions", "--json"}, {"token", "revoke"}} {
			t.Run(name+" for "+strings.Join(words, " "), func(t *testing.T) {
				t.Parallel()
				p := startCLI(t, answer)
				began := time.Now()
				p.start(append(append([]string{"__complete"}, words...), "")...)
				if code := p.exit(t); code != 0 {
					t.Errorf("exit code %d", code)
				}
				if took := time.Since(began); took > 10*time.Second { // the limit is 1 s
					t.Errorf("it took %s", took)
				}
				if got := p.out.String(); got != ":36\n" {
					t.Errorf("output %q", got)
				}
				if strings.Contains(p.err.String(), "stint:") {
					t.Errorf("messages: %s", p.err)
				}
			})
		}
	}
}

// TestCompletionOmitsUnusualPaths checks that only paths that fit on a line without control
// characters are candidates. An agent chooses the paths of its files.
func TestCompletionOmitsUnusualPaths(t *testing.T) {
	t.Parallel()
	p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/artifacts" {
			fmt.Fprint(w, `{"data":[{"id":"art_1","name":"a","currentVersionId":"v1_a"}],"pagination":{"hasMore":false}}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"path":"plain file","kind":"file"},{"path":"folder","kind":"dir"},{"path":"two\nlines","kind":"file"},{"path":"a\ttab","kind":"file"},
			{"path":"\u001b[2J","kind":"file"},{"path":"\u009b2J","kind":"file"},{"path":" space","kind":"file"}],"pagination":{"hasMore":false}}`)
	}))
	p.start("__complete", "artifact", "cat", "a", "")
	if code := p.exit(t); code != 0 || p.out.String() != "plain file\n:36\n" {
		t.Errorf("exit code %d, candidates %q", code, p.out)
	}
}
