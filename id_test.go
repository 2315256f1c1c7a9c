package stint_test

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
)

func TestIDsAreSortedAndUnique(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ids := stint.NewIDs(func() time.Time { return at }, rand.Reader)
	var created []string
	for i := range 3000 {
		if i == 1000 {
			at = at.Add(time.Second)
		}
		if i == 2000 {
			at = at.Add(-time.Minute) // the clock is set back
		}
		created = append(created, ids.New(stint.PrefixRun))
	}
	if !slices.IsSorted(created) {
		t.Error("identifiers are not sorted by creation")
	}
	if len(slices.Compact(created)) != 3000 {
		t.Error("an identifier was created twice")
	}
	if !stint.IsID(stint.PrefixRun, created[0]) || stint.IsID(stint.PrefixAgent, created[0]) {
		t.Errorf("IsID is wrong for %q", created[0])
	}
	if lower := stint.ULIDAt(at.Add(time.Hour)); created[0] >= stint.PrefixRun+lower {
		t.Errorf("%q is not less than the bound %q", created[0], lower)
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
					t.Errorf("%s was created twice", id)
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
	valid := "run_01ke0000000000000000000000"
	for id, want := range map[string]bool{
		valid: true, "": false, "run_": false, valid[:29]: false, valid + "0": false,
		"run_01KE0000000000000000000000": false, "run_81ke0000000000000000000000": false,
		"run_01ke000000000000000000000u": false, "ag_01ke0000000000000000000000": false,
	} {
		if got := stint.IsID(stint.PrefixRun, id); got != want {
			t.Errorf("IsID(%q) = %v", id, got)
		}
	}
	for beginning, want := range map[string]bool{
		valid: true, "run_": true, "run_0": true, valid[:29]: true, "": false, "run": false, "ag_01": false,
		valid + "0": false, "run_01KE": false, "run_8": false, "run_0u": false, "run_0%": false,
	} {
		if got := stint.IsIDPrefix(stint.PrefixRun, beginning); got != want {
			t.Errorf("IsIDPrefix(%q) = %v", beginning, got)
		}
	}
	for version, want := range map[string]bool{
		"v1_abcdefghijklmnopqrst": true, "v0_abcdefghijklmnopqrst": false, "v1_abc": false,
		"v12_abcdefghij234567abcd": true, "1_abcdefghijklmnopqrst": false, "v1_abcdefghijklmnopqrs1": false,
	} {
		if got := stint.IsFileSetVersion(version); got != want {
			t.Errorf("IsFileSetVersion(%q) = %v", version, got)
		}
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	id := "v12_abcdefghij234567abcd"
	for reference, want := range map[string]int64{"": 0, "latest": 0, "v3": 3, "12": 12} {
		got, number, ok := stint.ParseVersion(reference, stint.IsFileSetVersion)
		if got != "" || number != want || !ok {
			t.Errorf("ParseVersion(%q) = %q, %d, %v", reference, got, number, ok)
		}
	}
	if got, number, ok := stint.ParseVersion(id, stint.IsFileSetVersion); got != id || number != 0 || !ok {
		t.Errorf("ParseVersion(%q) = %q, %d, %v", id, got, number, ok)
	}
	for _, reference := range []string{"v0", "0", "-1", "+1", "01", "v", "V1", "Latest", "1 ", "v1_x", "9223372036854775808", "\x00"} {
		if _, _, ok := stint.ParseVersion(reference, stint.IsFileSetVersion); ok {
			t.Errorf("ParseVersion(%q) accepts it", reference)
		}
	}
}
