package cli_test

import (
	"fmt"
	"net/http"
	"path"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCompleteIDs checks that commands with complete IDs and names send only their own
// requests.
func TestCompleteIDs(t *testing.T) {
	t.Parallel()
	const ulid = "01m83cgkrq1d8jegwq7s9zkypv"
	for name, c := range map[string]struct {
		args, want []string
	}{
		"run":        {[]string{"runs", "show", "run_" + ulid}, []string{"GET /v1/runs/run_" + ulid}},
		"session":    {[]string{"continue", "sess_" + ulid, "hello", "-d"}, []string{"POST /v1/runs"}},
		"checkpoint": {[]string{"resume", "chk_" + ulid, "hello", "-d"}, []string{"POST /v1/runs"}},
		"agent":      {[]string{"run", "ag_" + ulid, "hello", "-d"}, []string{"POST /v1/runs"}},
		"name":       {[]string{"run", "worker", "hello", "-d", "--artifact", "work@v1"}, []string{"POST /v1/runs"}},
		"token":      {[]string{"token", "revoke", "tok_" + ulid}, []string{"DELETE /v1/tokens/tok_" + ulid}},
		"volume":     {[]string{"volume", "rm", "vol_" + ulid}, []string{"GET /v1/volumes/vol_" + ulid, "DELETE /v1/volumes/vol_" + ulid}},
		"shortened":  {[]string{"runs", "show", "run_01m8"}, []string{"GET /v1/runs?idPrefix=run_01m8&limit=9", "GET /v1/runs/run_01m83cgkrq1d8jegwq7s9zkypv"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var got []string
			p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, r.Method+" "+r.URL.String())
				switch {
				case r.Method == http.MethodDelete:
					w.WriteHeader(http.StatusNoContent)
				case r.URL.Query().Has("idPrefix"):
					fmt.Fprintf(w, `{"data":[{"id":"run_%s"}],"pagination":{"hasMore":false}}`, ulid)
				default:
					fmt.Fprintf(w, `{"id":"%s"}`, path.Base(r.URL.Path))
				}
			}))
			p.start(c.args...)
			if code := p.exit(t); code != 0 {
				t.Fatalf("exit code %d: %s", code, p.err)
			}
			mu.Lock()
			defer mu.Unlock()
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
		})
	}
}
