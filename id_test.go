package stint_test

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
)

func TestIDsSortByTimeAndNeverRepeat(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ids := stint.NewIDs(func() time.Time { return at }, rand.Reader)
	var minted []string
	for i := range 3000 {
		if i == 1000 {
			at = at.Add(time.Second)
		}
		if i == 2000 {
			at = at.Add(-time.Minute) // a clock that steps back
		}
		minted = append(minted, ids.New(stint.PrefixRun))
	}
	if !slices.IsSorted(minted) {
		t.Error("identifiers do not sort in the order of their minting")
	}
	if len(slices.Compact(minted)) != 3000 {
		t.Error("an identifier was minted twice")
	}
	if !stint.IsID(stint.PrefixRun, minted[0]) || stint.IsID(stint.PrefixAgent, minted[0]) {
		t.Errorf("%q is not what it should be", minted[0])
	}
	if lower := stint.ULIDAt(at.Add(time.Hour)); minted[0] >= stint.PrefixRun+lower {
		t.Errorf("%q is not below the bound %q", minted[0], lower)
	}
}

func TestIDsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	ids := stint.NewIDs(time.Now, rand.Reader)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				id := ids.New("x_")
				mu.Lock()
				if seen[id] {
					t.Errorf("%s was minted twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestIsID(t *testing.T) {
	t.Parallel()
	good := "run_01ke0000000000000000000000"
	for id, want := range map[string]bool{
		good: true, "": false, "run_": false, good[:29]: false, good + "0": false,
		"run_01KE0000000000000000000000": false, "run_81ke0000000000000000000000": false,
		"run_01ke000000000000000000000u": false, "ag_01ke0000000000000000000000": false,
	} {
		if got := stint.IsID(stint.PrefixRun, id); got != want {
			t.Errorf("IsID(%q) = %v", id, got)
		}
	}
	for version, want := range map[string]bool{
		"v1_abcdefghijklmnopqrst": true, "v0_abcdefghijklmnopqrst": false, "v1_abc": false,
		"v12_abcdefghij234567abcd": true, "1_abcdefghijklmnopqrst": false, "v1_abcdefghijklmnopqrs1": false,
	} {
		if got := stint.IsFileSetVersion(version); got != want {
			t.Errorf("IsTreeVersion(%q) = %v", version, got)
		}
	}
}
