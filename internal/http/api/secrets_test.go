package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/masking"
)

func (w *world) putSecret(name, value string) response {
	w.Helper()
	return w.do(request{method: "PUT", path: "/v1/secrets/" + name, body: map[string]string{"value": value}})
}

// TestMaximumNumberOfSecrets checks that an organisation cannot store more secrets than
// a run can mask.
func TestMaximumNumberOfSecrets(t *testing.T) {
	w := newWorld(t)
	for i := range masking.MaxValues {
		if a := w.putSecret(fmt.Sprintf("S%d", i), "value"); a.StatusCode != http.StatusCreated {
			t.Fatalf("secret %d returned %d %s", i, a.StatusCode, a.body)
		}
	}
	if a := w.putSecret("MORE", "value"); a.errorOf() != "invalid_request_error invalid_state" || !strings.Contains(string(a.body), "Delete") {
		t.Errorf("one more returned %d %s", a.StatusCode, a.body)
	}
	if a := w.putSecret("S0", "another"); a.StatusCode != http.StatusOK {
		t.Errorf("replacing one returned %d %s", a.StatusCode, a.body)
	}
	if a := w.do(request{method: "DELETE", path: "/v1/secrets/S0"}); a.StatusCode != http.StatusNoContent {
		t.Fatal(a.StatusCode)
	}
	if a := w.putSecret("MORE", "value"); a.StatusCode != http.StatusCreated {
		t.Errorf("after a deletion, one more returned %d %s", a.StatusCode, a.body)
	}
}

func TestMaximumSizeOfSecrets(t *testing.T) {
	w := newWorld(t)
	half := strings.Repeat("x", masking.MaxTotalSize/2)
	for _, c := range []struct {
		name, value string
		want        string
	}{
		{"A", half + half, "201"},
		{"B", "1", "400 invalid_request_error invalid_state"},
		{"A", half, "200"},
		{"B", half, "201"},
		{"A", half + "1", "400 invalid_request_error invalid_state"},
		{"A", half[1:], "200"},
		{"C", "1", "201"},
		{"D", half + half + "1", "400 invalid_request_error invalid_parameter"},
	} {
		a := w.putSecret(c.name, c.value)
		got := fmt.Sprint(a.StatusCode)
		if a.StatusCode >= 400 {
			got += " " + a.errorOf()
		}
		w.diff(fmt.Sprintf("%s of %d bytes", c.name, len(c.value)), c.want, got)
	}
}

// TestTooManySecretsForRun checks that the assignment of a run fails if the run's own
// secrets and the stored secrets together are too large to be masked.
func TestTooManySecretsForRun(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	large := strings.Repeat("x", masking.MaxTotalSize)
	w.putSecret("STORED", large)
	w.post("/v1/runs", map[string]any{"agent": "reviewer", "prompt": "x", "secrets": map[string]string{"GIVEN": "y"}}, http.StatusAccepted, &stint.Run{})
	a := w.assigned()
	if stint.KindOf(a.Err) != stint.KindInvalid || len(a.Stored) != 0 || !strings.Contains(fmt.Sprint(a.Err), "Delete") {
		t.Errorf("the assignment has %d stored secrets and %v", len(a.Stored), a.Err)
	}
	w.post("/v1/runs", map[string]any{"agent": "reviewer", "prompt": "x"}, http.StatusAccepted, &stint.Run{})
	if a := w.assigned(); a.Err != nil || a.Stored["STORED"] != large {
		t.Errorf("only the stored secret: %d, %v", len(a.Stored), a.Err)
	}
}
