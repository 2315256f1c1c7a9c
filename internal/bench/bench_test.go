package bench_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/bench"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// little is enough to walk every path.
var little = bench.Amounts{
	Each: 150 * time.Millisecond, Anchor: 40 * time.Millisecond, Samples: 5, Streams: 12, Fanout: 24,
	Rows: 1500, Echoes: 4, OfferedRate: 40,
	Files: 60, LargeBytes: 8 << 20, Entries: 100, ArtifactBytes: 2 << 20, ArtifactFiles: 20,
}

// measure runs scenarios with little amounts and returns the rows.
func measure(t *testing.T, o bench.Options) []bench.Row {
	t.Helper()
	o.Amounts, o.Data = &little, t.TempDir()
	var told []string
	o.Progress = func(s string) { told = append(told, s) }
	r, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Data); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if diff := cmp.Diff(o.Only, told); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	return r.Rows
}

// sound checks that every scenario measured something.
func sound(t *testing.T, only []string, rows []bench.Row) {
	t.Helper()
	var seen []string
	for i := range rows {
		r := &rows[i]
		if r.Verdict() == bench.Broken {
			t.Errorf("%s: %s", r.Scenario, r.Error)
			continue
		}
		if r.Measured.String() == "" && r.Note == "" { // what is not there says so
			t.Errorf("%s, %s: nothing was measured", r.Scenario, r.What)
		}
		if r.AnchorMeasured != nil && r.Ratio <= 0 {
			t.Errorf("%s, %s: ratio %v to %s", r.Scenario, r.What, r.Ratio, r.AnchorMeasured)
		}
		seen = append(seen, r.Scenario)
	}
	if diff := cmp.Diff(only, slices.Compact(seen)); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}

func TestEveryScenario(t *testing.T) {
	t.Parallel()
	for _, s := range bench.Scenarios() {
		t.Run(s[0], func(t *testing.T) {
			t.Parallel()
			only := []string{s[0]}
			sound(t, only, measure(t, bench.Options{Only: only}))
		})
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	only := []string{"claim", "journal", "list", "cancel"}
	sound(t, only, measure(t, bench.Options{Only: only, Database: pgtest.URL(t)}))
}

func TestAScenarioThatFailsIsARow(t *testing.T) {
	t.Parallel()
	rows := measure(t, bench.Options{Only: []string{"create", "get"}, Command: []string{"/bin/false"}})
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	for i := range rows {
		if rows[i].Verdict() != bench.Broken || rows[i].Error == "" {
			t.Errorf("%s: %s %q", rows[i].Scenario, rows[i].Verdict(), rows[i].Error)
		}
	}
}

func TestAnUnknownScenarioIsRefused(t *testing.T) {
	t.Parallel()
	_, err := bench.Run(t.Context(), bench.Options{Only: []string{"get", "gte"}})
	if err == nil || !strings.Contains(err.Error(), "'gte'") || !strings.Contains(err.Error(), "fanout") {
		t.Errorf("error %v", err)
	}
}
