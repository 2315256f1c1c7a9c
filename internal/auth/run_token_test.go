package auth_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

// runState implements auth.Runs. It returns the same status and epoch, or the same error,
// for every run.
type runState struct {
	status stint.Status
	epoch  int64
	err    error
}

func (r *runState) RunState(context.Context, string) (stint.Status, int64, error) {
	return r.status, r.epoch, r.err
}

func TestRunToken(t *testing.T) {
	w := newWorld(t)
	run := &runState{status: stint.Running, epoch: 2}
	s := auth.New(auth.Config{Store: w.store, IDs: w.ids, Now: w.now, Key: w.key, Runs: run})
	id := w.ids.New(stint.PrefixRun)
	newToken := func(lifetime time.Duration) string {
		t.Helper()
		token, err := s.RunToken(auth.RunGrant{OrgID: "org_a", RunID: id, Epoch: 2, Depth: 1}, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	token := newToken(time.Hour)
	c, err := s.Authenticate(t.Context(), token)
	want := auth.Caller{
		OrgID: "org_a", TokenID: id, RunID: id, Depth: 1, Scopes: []string{"read", "write"}, ExpiresAt: stint.TimeOf(w.at.Add(time.Hour)),
	}
	if d := cmp.Diff(want, c); err != nil || d != "" {
		t.Errorf("caller, %v (-want +got):\n%s", err, d)
	}
	if c.Name() != "run:"+id || c.Can(stint.ScopeAdmin) {
		t.Errorf("the caller is named %s; Can(admin) = %v", c.Name(), c.Can(stint.ScopeAdmin))
	}
	if err := s.Check(t.Context(), "org_a", c.TokenID); err != nil {
		t.Errorf("Check of a running run returned %v", err)
	}

	w.checkRefused(s, token[:len(token)-1], "truncated")
	w.checkRefused(s, auth.RunTokenPrefix+s.SignCursor("", "", []byte(`{"o":"org_a","e":99999999999999}`)), "a cursor")
	w.checkRefused(w.auth, token, "a Service without Runs")
	for why, state := range map[string]runState{
		"an ended run": {status: stint.Completed, epoch: 2}, "a pending run": {status: stint.Pending, epoch: 2},
		"another epoch": {status: stint.Running, epoch: 3}, "an unknown run": {err: store.ErrNotFound},
	} {
		*run = state
		w.checkRefused(s, token, why)
	}
	*run = runState{status: stint.Completed, epoch: 2}
	if err := s.Check(t.Context(), "org_a", id); !errors.Is(err, auth.ErrInvalidKey) {
		t.Errorf("Check of an ended run returned %v", err)
	}
	*run = runState{err: errors.New("disk error")}
	if _, err := s.Authenticate(t.Context(), token); err == nil || errors.Is(err, auth.ErrInvalidKey) {
		t.Errorf("with a failing store, Authenticate returned %v", err)
	}

	*run = runState{status: stint.Running, epoch: 2}
	long := newToken(100 * time.Hour)
	w.pass(time.Hour)
	w.checkRefused(s, token, "expired")
	w.pass(23*time.Hour - time.Millisecond)
	if _, err := s.Authenticate(t.Context(), long); err != nil {
		t.Errorf("a token of 100 hours returned before 24 hours %v", err)
	}
	w.pass(time.Millisecond)
	w.checkRefused(s, long, "after 24 hours")
}
