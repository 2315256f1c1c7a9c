package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// smallAmounts keeps the tests short, but is large enough that each scenario executes
// all of its code.
var smallAmounts = amounts{
	each: 150 * time.Millisecond, anchor: 40 * time.Millisecond, samples: 5, streams: 12, fanoutStreams: 24,
	listed: 1500, rate: 40, files: 60, largeBytes: 8 << 20, entries: 100, artifactBytes: 2 << 20, artifactFiles: 20,
}

// measureSmall measures the named scenarios with smallAmounts and returns the rows of
// the report. It checks the progress messages, and that no files are left.
func measureSmall(t *testing.T, o options, names ...string) []Row {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose(names)
	if err != nil {
		t.Fatal(err)
	}
	var progress strings.Builder
	o.amounts, o.data, o.progress = smallAmounts, t.TempDir(), &progress
	if o.stint == "" {
		o.stint = self
	}
	r, err := measure(t.Context(), o, chosen)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.data); err != nil || len(left) > 0 {
		t.Errorf("files left in the data folder: %v, %v", left, err)
	}
	want := ""
	for _, name := range names {
		want += "measuring " + name + " …\n"
	}
	if diff := cmp.Diff(want, progress.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	return r.Rows
}

// checkRows checks that the rows belong to exactly the named scenarios, and that each
// row has a measurement and no error.
func checkRows(t *testing.T, rows []Row, names ...string) {
	t.Helper()
	var seen []string
	for i := range rows {
		r := &rows[i]
		if r.Error != "" {
			t.Errorf("%s: %s", r.Scenario, r.Error)
			continue
		}
		if r.Measured.String() == "" && r.Note == "" { // the row of an unavailable agent has a note instead
			t.Errorf("%s, %s: nothing was measured", r.Scenario, r.What)
		}
		if r.AnchorMeasured != nil && r.Ratio <= 0 {
			t.Errorf("%s, %s: ratio %v to %s", r.Scenario, r.What, r.Ratio, r.AnchorMeasured)
		}
		seen = append(seen, r.Scenario)
	}
	if diff := cmp.Diff(names, slices.Compact(seen)); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}

func TestEveryScenario(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			rows := measureSmall(t, options{}, s.name)
			checkRows(t, rows, s.name)
			if !slices.ContainsFunc(rows, func(r Row) bool { return r.Ratio > 0 || r.Measured.String() == "" }) {
				t.Error("no row has a ratio")
			}
		})
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	names := []string{"claim", "journal", "list", "cancel"}
	checkRows(t, measureSmall(t, options{database: pgtest.URL(t)}, names...), names...)
}

func TestFailedScenarioHasRow(t *testing.T) {
	t.Parallel()
	rows := measureSmall(t, options{stint: "/bin/false"}, "create", "get")
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	for i := range rows {
		if rows[i].Verdict() != Broken || rows[i].Error == "" {
			t.Errorf("%s: %s %q", rows[i].Scenario, rows[i].Verdict(), rows[i].Error)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		code   int
		stderr []string
	}{
		{[]string{"get", "gte"}, 2, []string{"'gte'", "--help"}},
		{[]string{"--fast"}, 2, []string{"--fast"}},
		{[]string{"--help"}, 0, []string{"Usage:", "--stint", "throughput"}},
		{[]string{"host", t.TempDir(), "many"}, 1, []string{"many"}},
		{[]string{"create", "--data", t.TempDir() + "/missing"}, 1, []string{"missing"}},
		{[]string{"create", "--data", t.TempDir(), "--stint", "/bin/false"}, 1, []string{"measuring create"}},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), c.args, io.Discard, &stderr); code != c.code {
			t.Errorf("%q: exit code %d, want %d", c.args, code, c.code)
		}
		for _, want := range c.stderr {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%q: %q is missing in %q", c.args, want, stderr.String())
			}
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	if code := run(t.Context(), []string{"create", "--json", "--data", t.TempDir(), "--stint", "/bin/false"}, &stdout, io.Discard); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	var r Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || len(r.Rows) != 1 || r.Rows[0].Scenario != "create" {
		t.Errorf("%d rows, error %v in %s", len(r.Rows), err, stdout.String())
	}
}
