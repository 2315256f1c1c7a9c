package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// TestFollowLogs checks that a followed log continues at the last cursor, after a failed
// connection as well, and ends with the entries that are stored when the run has ended.
func TestFollowLogs(t *testing.T) {
	t.Parallel()
	var asked []string
	broken := false
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/logs") {
			status := "running"
			if len(asked) >= 3 {
				status = "completed"
			}
			writeJSON(w, 200, fmt.Sprintf(`{"id":"run_1","status":%q}`, status))
			return
		}
		if len(asked) == 2 && !broken {
			broken = true
			panic(http.ErrAbortHandler) // closes the connection
		}
		q := r.URL.Query()
		asked = append(asked, fmt.Sprint(q.Get("follow"), " ", q.Get("type"), " ", q.Get("cursor")))
		n := len(asked)
		writeJSON(w, 200, fmt.Sprintf(`{"data":[{"message":"entry %d","metadata":{}}],"pagination":{"hasMore":%t,"nextCursor":"c%d"}}`, n, n == 1, n))
	}))
	var got []string
	for entry, err := range c.Runs.FollowLogs(t.Context(), "run_1", client.LogFilter{Type: stint.LogNetwork}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry.Message)
	}
	if diff := cmp.Diff([]string{"entry 1", "entry 2", "entry 3", "entry 4"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"true network ", "true network c1", "true network c2", "true network c3"}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestFollowLogsNeedsCursor(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 200, `{"data":[],"pagination":{"hasMore":false,"nextCursor":null}}`)
	}))
	for _, err := range c.Runs.FollowLogs(t.Context(), "run_1", client.LogFilter{}) {
		if err == nil || !strings.Contains(err.Error(), "update it") {
			t.Errorf("error %v", err)
		}
	}
}
