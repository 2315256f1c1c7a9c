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

// runState is a run, or that there is none.
type runState struct {
	status stint.Status
	epoch  int64
	err    error
}

func (r *runState) RunState(context.Context, string) (stint.Status, int64, error) {
	return r.status, r.epoch, r.err
}

func TestTokensOfRuns(t *testing.T) {
	w := newWorld(t)
	run := &runState{status: stint.Running, epoch: 2}
	s := auth.New(auth.Config{Store: w.store, IDs: w.ids, Now: w.now, Key: w.key, Runs: run})
	id := w.ids.New(stint.PrefixRun)
	give := func(works time.Duration) string {
		t.Helper()
		token, err := s.RunToken(auth.RunGrant{OrgID: "org_a", RunID: id, Epoch: 2, Depth: 1}, works)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	token := give(time.Hour)
	c, err := s.Authenticate(t.Context(), token)
	want := auth.Caller{
		OrgID: "org_a", TokenID: id, RunID: id, Depth: 1, Scopes: []string{"read", "write"}, ExpiresAt: stint.TimeOf(w.at.Add(time.Hour)),
	}
	if d := cmp.Diff(want, c); err != nil || d != "" {
		t.Errorf("caller, %v (-want +got):\n%s", err, d)
	}
	if c.Name() != "run:"+id || c.Can(stint.ScopeAdmin) {
		t.Errorf("the caller %s may administrate: %v", c.Name(), c.Can(stint.ScopeAdmin))
	}
	if err := s.Check(t.Context(), "org_a", c.TokenID); err != nil {
		t.Errorf("Check while the run runs gave %v", err)
	}

	w.refused(s, token[:len(token)-1], "cut short")
	w.refused(s, auth.RunTokenPrefix+s.SignCursor("", "", []byte(`{"o":"org_a","e":99999999999999}`)), "a cursor")
	w.refused(w.auth, token, "a process that asks for no runs")
	for why, state := range map[string]runState{
		"a run that has ended": {status: stint.Completed, epoch: 2}, "a run that waits again": {status: stint.Pending, epoch: 2},
		"another start": {status: stint.Running, epoch: 3}, "no such run": {err: store.ErrNotFound},
	} {
		*run = state
		w.refused(s, token, why)
	}
	*run = runState{status: stint.Completed, epoch: 2}
	if err := s.Check(t.Context(), "org_a", id); !errors.Is(err, auth.ErrInvalidKey) {
		t.Errorf("Check of a run that has ended gave %v", err)
	}
	*run = runState{err: errors.New("the disk is on fire")}
	if _, err := s.Authenticate(t.Context(), token); err == nil || errors.Is(err, auth.ErrInvalidKey) {
		t.Errorf("a store that fails gave %v", err)
	}

	*run = runState{status: stint.Running, epoch: 2}
	long := give(100 * time.Hour)
	w.pass(time.Hour)
	w.refused(s, token, "after its time")
	w.pass(23*time.Hour - time.Millisecond)
	if _, err := s.Authenticate(t.Context(), long); err != nil {
		t.Errorf("within a day a long token gave %v", err)
	}
	w.pass(time.Millisecond)
	w.refused(s, long, "after a day")
}
