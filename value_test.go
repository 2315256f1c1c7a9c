package stint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"2026-01-02T03:04:05Z":                "2026-01-02T03:04:05.000Z",
		"2026-01-02T03:04:05.123456Z":         "2026-01-02T03:04:05.123Z",
		"2026-01-02T05:04:05.999999999+02:00": "2026-01-02T03:04:05.999Z",
	} {
		got, err := stint.ParseTime(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseTime(%q) = %s, %v; want %s", in, got, err, want)
		}
		b, err := json.Marshal(got)
		if err != nil || string(b) != `"`+want+`"` {
			t.Errorf("%s is encoded as %s, %v", in, b, err)
		}
		var back stint.Time
		if err := json.Unmarshal(b, &back); err != nil || !back.Equal(got.Time) {
			t.Errorf("%s is decoded as %s, %v", b, back, err)
		}
		if us := stint.TimeOfMicros(got.UnixMicro()); !us.Equal(got.Time) {
			t.Errorf("TimeOfMicros of %s is %s", got, us)
		}
	}
	for _, invalid := range []string{"", "yesterday", "2026-01-02", "2026-13-02T03:04:05Z", "1767323045"} {
		if _, err := stint.ParseTime(invalid); err == nil {
			t.Errorf("ParseTime accepts %q", invalid)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]stint.Size{"1": 1, "64MiB": 64 << 20, "2 GiB": 2 << 30, "1.5KiB": 1536, "500MB": 500_000_000, "7B": 7} {
		if got, err := stint.ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, invalid := range []string{"", "-1", "1XB", "9999999TiB", "NaN", "GiB", "1e40"} {
		if got, err := stint.ParseSize(invalid); err == nil {
			t.Errorf("ParseSize accepts %q as %d bytes", invalid, got)
		}
	}
	for size, want := range map[stint.Size]string{64 << 20: "64MiB", 1500: "1500", 0: "0", 1 << 40: "1TiB"} {
		if got := size.String(); got != want {
			t.Errorf("the text of %d is %q, want %q", int64(size), got, want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, valid := range []string{"a", "reviewer", "a-b", "0", strings.Repeat("a", 64)} {
		if e := stint.CheckName("name", valid); e != nil {
			t.Errorf("%q: %v", valid, e)
		}
	}
	for _, invalid := range []string{"", "-a", "a-", "A", "a_b", "a b", "ä", strings.Repeat("a", 65), "a/b"} {
		if stint.CheckName("name", invalid) == nil {
			t.Errorf("CheckName accepts %q", invalid)
		}
	}
	for _, invalid := range []string{"", "1A", "A-B", "LD_PRELOAD", "ld_preload", "STINT_X", "HOME", "BASH_ENV", strings.Repeat("A", 257), "A=B"} {
		if stint.CheckVariable("variables.x", invalid) == nil {
			t.Errorf("CheckVariable accepts %q", invalid)
		}
	}
	for _, valid := range []string{"A", "_x", "API_KEY", "path2"} {
		if e := stint.CheckVariable("variables.x", valid); e != nil {
			t.Errorf("%q: %v", valid, e)
		}
	}
}

func TestJoinErrors(t *testing.T) {
	t.Parallel()
	if stint.JoinErrors() != nil {
		t.Error("JoinErrors of no errors is not nil")
	}
	one := stint.InvalidParam("a", "A is wrong.")
	if got := stint.JoinErrors(one, nil); !errors.Is(got, one) {
		t.Errorf("JoinErrors of one error is %v", got)
	}
	got, ok := errors.AsType[*stint.Error](stint.JoinErrors(one, stint.MissingParam("b", "B is missing.")))
	if !ok || got.Code != stint.CodeInvalidParameter || got.Message != "A is wrong. B is missing." {
		t.Fatalf("JoinErrors of two errors is %+v", got)
	}
	want := []stint.Detail{{Param: "a", Code: "invalid_parameter", Message: "A is wrong."}, {Param: "b", Code: "missing_parameter", Message: "B is missing."}}
	if diff := cmp.Diff(want, got.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

func TestMessagesContainNoControlCharacters(t *testing.T) {
	t.Parallel()
	e := stint.NotFound("run", "run_\x1b[31m\n"+strings.Repeat("x", 5000))
	if strings.ContainsAny(e.Message, "\x1b\n") || len(e.Message) > 300 {
		t.Errorf("message %q", e.Message)
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	for _, s := range stint.Statuses {
		if !s.Valid() || s.Final() == (s == stint.Pending || s == stint.Running) {
			t.Errorf("%s: valid %v, final %v", s, s.Valid(), s.Final())
		}
	}
	if stint.Status("done").Valid() {
		t.Error("an unknown status is valid")
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	total := int64(2000)
	got := stint.Summarize([]stint.MetricsSample{{CPUPercent: 10, MemoryUsedMb: 5}, {CPUPercent: 30, MemoryUsedMb: 3}}, &total)
	if diff := cmp.Diff(stint.MetricsSummary{AvgCPUPercent: 20, MaxMemoryUsedMb: 5, TotalDurationMs: &total}, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	equal := make([]stint.MetricsSample, 7)
	for i := range equal {
		equal[i].CPUPercent = 42.1
	}
	if got := stint.Summarize(equal, nil).AvgCPUPercent; got != 42.1 {
		t.Errorf("the average of 42.1 is %v", got)
	}
	if got := stint.Summarize(nil, nil); got != (stint.MetricsSummary{}) {
		t.Errorf("the summary of no samples is %+v", got)
	}
}

func TestRunJSON(t *testing.T) {
	t.Parallel()
	at := stint.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	created, err := json.Marshal(stint.Run{RunSummary: stint.RunSummary{CreatedAt: at}})
	if err != nil || strings.Contains(string(created), "volumes") {
		t.Errorf("a run with nil volumes is encoded as %s, %v", created, err)
	}
	read, err := json.Marshal(stint.Run{RunSummary: stint.RunSummary{CreatedAt: at}, Volumes: map[string]string{}})
	if err != nil || !strings.Contains(string(read), `"volumes":{}`) {
		t.Errorf("a run with empty volumes is encoded as %s, %v", read, err)
	}
}

// TestUsageLimitsModels checks that a Usage contains a limited number of models, because
// agents choose the model names. It also checks that the tokens of all models are counted.
func TestUsageLimitsModels(t *testing.T) {
	t.Parallel()
	var u stint.Usage
	for range 2 {
		for i := range 1000 {
			u.Count(fmt.Sprintf("model-%d", i), stint.Tokens{InputTokens: 1, ModelCalls: 1})
		}
	}
	var sum stint.Tokens
	for _, share := range u.Models {
		sum.Add(share)
	}
	if len(u.Models) > 65 || sum != u.Tokens || u.InputTokens != 2000 {
		t.Errorf("%d models with a sum of %+v, want %+v", len(u.Models), sum, u.Tokens)
	}
	if u.Models["model-0"].ModelCalls != 2 || u.Models["other"].ModelCalls != 2*(1000-64) {
		t.Errorf("a known model has %+v, and others have %+v", u.Models["model-0"], u.Models["other"])
	}
}
