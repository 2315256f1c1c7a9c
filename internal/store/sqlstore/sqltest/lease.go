package sqltest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// LostClaims checks that a worker loses a run if the worker never received the claim, for
// example because its connection to the database broke. The worker keeps its other runs.
func LostClaims(t *testing.T, s store.Store) {
	for range 10 { // repeats the test if the short lease expires, as it may on a slow machine
		worker := Worker(t, s)
		known, lost := claim(t, s, worker), claim(t, s, worker)
		if stop, err := s.Renew(t.Context(), worker, []string{known.Run.ID}, time.Hour); err != nil || len(stop) > 0 {
			t.Fatalf("Renew while the claim may still arrive: stop %v, %v", stop, err)
		}
		reap(t, s)
		if !takenAway(t, s, worker, known) {
			continue
		}
		if _, err := s.Append(t.Context(), lost.Position, Batch("x")); !isFence(err) {
			t.Errorf("Append to the lost run: %v", err)
		}
		reap(t, s, lost.Run.ID)
		if r, err := s.Run(t.Context(), Org, lost.Run.ID); err != nil || r.Status != stint.Failed || *r.StatusReason != stint.ReasonWorkerLost {
			t.Errorf("the lost run is %s, %v", r.Status, err)
		}
		if _, err := s.Append(t.Context(), known.Position, Batch("x")); err != nil {
			t.Errorf("Append to the held run: %v", err)
		}
		return
	}
	t.Error("the lease expired each time")
}

func claim(t *testing.T, s store.Store, worker string) store.Claim {
	t.Helper()
	claims, err := s.CreateRun(t.Context(), NewRun(0), &store.ClaimRequest{WorkerID: worker, Max: 1, At: now()})
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	return claims[0]
}

// takenAway renews the worker's lease with a ttl that is shorter than the age of the claims,
// so the worker loses all runs except known. It then renews the lease with a long ttl. It
// returns false if the lease expired before the second call.
func takenAway(t *testing.T, s store.Store, worker string, known store.Claim) bool {
	t.Helper()
	const ttl = 100 * time.Millisecond
	for from := clock(t, s); clock(t, s).Sub(from) <= ttl; {
	}
	for _, ttl := range []time.Duration{ttl, time.Hour} {
		stop, err := s.Renew(t.Context(), worker, []string{known.Run.ID}, ttl)
		if errors.Is(err, store.ErrLeaseLost) {
			if _, err := s.Reap(t.Context(), now(), 10); err != nil {
				t.Fatal(err)
			}
			return false
		}
		if err != nil || len(stop) > 0 {
			t.Fatalf("Renew: stop %v, %v", stop, err)
		}
	}
	return true
}

func clock(t *testing.T, s store.Store) time.Time {
	t.Helper()
	at, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func reap(t *testing.T, s store.Store, want ...string) {
	t.Helper()
	got, err := s.Reap(t.Context(), now(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func isFence(err error) bool {
	_, ok := errors.AsType[*store.FencedError](err)
	return ok
}
