package service_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// metrics contains the values of /metrics by series, such as name{label="value"}.
type metrics map[string]float64

// scrape reads /metrics, with a token unless it is empty.
func scrape(t *testing.T, h *installation.Host, token string) metrics {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.Listen+"/metrics", nil)
	installation.Check(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	installation.Check(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("/metrics returned %s", res.Status)
	}
	m := metrics{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		if end := strings.LastIndexByte(line, ' '); end > 0 && !strings.HasPrefix(line, "#") {
			m[line[:end]], err = strconv.ParseFloat(line[end+1:], 64)
			installation.Check(t, err)
		}
	}
	return m
}

// names returns the sorted names of Stint's own metrics, without the suffixes of
// histograms.
func (m metrics) names() []string {
	all := map[string]bool{}
	for series := range m {
		name, _, _ := strings.Cut(series, "{")
		if strings.HasPrefix(name, "stint_") {
			all[histogramSuffix.ReplaceAllString(name, "$1")] = true
		}
	}
	var out []string
	for name := range all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

var histogramSuffix = regexp.MustCompile(`^(.*_(?:seconds))_(?:bucket|sum|count)$`)

// TestMetricsOfRuns executes runs with different endings and checks what /metrics counted
// meanwhile.
func TestMetricsOfRuns(t *testing.T) {
	t.Parallel()
	h := installation.New(t, "--per-org", "1")
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", `,"network":{"mode":"restricted","allow":["example.org"]}`)
	before := scrape(t, h, "")
	for _, prompt := range []string{"echo hello", "exit 3", "exec 3<>/dev/tcp/10.1.2.3/80; exit 4"} {
		installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Prompt: prompt}).ID)
	}
	running := installation.Create(t, c, stint.NewRun{Prompt: "echo started; sleep 600"})
	next, err := c.Runs.Create(t.Context(), stint.NewRun{Agent: "shell", Prompt: "true"}, nil)
	installation.Check(t, err)
	waitForOutput(t, c, running.ID)
	// The worker cleans up after an earlier run has ended, and the number of leases can be
	// several seconds old.
	during := scrape(t, h, "")
	for deadline := time.Now().Add(time.Minute); during["stint_worker_runs"] != 1 || during["stint_worker_leases"] != 1; during = scrape(t, h, "") {
		if time.Now().After(deadline) {
			t.Fatalf("the worker executes %v runs with %v leases", during["stint_worker_runs"], during["stint_worker_leases"])
		}
		<-time.After(50 * time.Millisecond)
	}
	for series, want := range map[string]float64{
		"stint_runs_created_total":                                           5,
		`stint_runs_ended_total{reason="none",status="completed"}`:           1,
		`stint_runs_ended_total{reason="exit_code",status="failed"}`:         2,
		`stint_egress_decisions_total{action="deny",rule="special_address"}`: 1,
		"stint_run_wait_seconds_count":                                       4,
		`stint_run_duration_seconds_count{status="failed"}`:                  2,
	} {
		if got := during[series] - before[series]; got != want {
			t.Errorf("%s increased by %v, want %v", series, got, want)
		}
	}
	if during["stint_journal_events_total"] <= before["stint_journal_events_total"] || during["stint_journal_append_seconds_count"] == 0 {
		t.Errorf("%v events in %v appends", during["stint_journal_events_total"], during["stint_journal_append_seconds_count"])
	}
	if during["stint_worker_capacity"] < 1 || during["stint_host_healthy"] != 1 {
		t.Errorf("the worker has the capacity %v and the health %v", during["stint_worker_capacity"], during["stint_host_healthy"])
	}
	for _, id := range []string{next.ID, running.ID} {
		_, err := c.Runs.Cancel(t.Context(), id)
		installation.Check(t, err)
	}
	after := scrape(t, h, "")
	if got := after["stint_run_start_seconds_count"] - before["stint_run_start_seconds_count"]; got != 4 {
		t.Errorf("%v starts, want 4", got)
	}
	if got := after[`stint_runs_ended_total{reason="cancelled_by_user",status="cancelled"}`] - before[`stint_runs_ended_total{reason="cancelled_by_user",status="cancelled"}`]; got != 2 {
		t.Errorf("%v runs were cancelled", got)
	}
}

// TestMetricsOfQueue checks the gauges of the queue, and that only operators see
// organisations.
func TestMetricsOfQueue(t *testing.T) {
	t.Parallel()
	h := installation.New(t, "--per-org", "1")
	h.Start()
	c, other := h.Login(t, "acme"), h.Login(t, "beta")
	installation.Agent(t, c, "secret-name", "")
	running := installation.Create(t, c, stint.NewRun{Agent: "secret-name", Prompt: "echo started; sleep 600"})
	for range 3 {
		installation.Create(t, c, stint.NewRun{Agent: "secret-name", Prompt: "true"})
	}
	waitForOutput(t, c, running.ID)
	operator, err := c.Tokens.Create(t.Context(), stint.NewToken{Name: "prometheus"})
	installation.Check(t, err)
	reader, err := c.Tokens.Create(t.Context(), stint.NewToken{Name: "reader", Scopes: []string{stint.ScopeRead}})
	installation.Check(t, err)
	foreign, err := other.Tokens.Create(t.Context(), stint.NewToken{Name: "prometheus"})
	installation.Check(t, err)
	m := scrape(t, h, operator.Secret)
	for series, want := range map[string]float64{
		"stint_queue_runs": 3, "stint_running_runs": 1,
		`stint_organisation_queue_runs{organisation="acme"}`: 3, `stint_organisation_queue_runs{organisation="beta"}`: 0,
		`stint_organisation_running_runs{organisation="acme"}`: 1,
	} {
		if got, ok := m[series]; !ok || got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if m["stint_queue_oldest_seconds"] <= 0 || m[`stint_organisation_queue_oldest_seconds{organisation="acme"}`] <= 0 {
		t.Errorf("the oldest run waits for %v s", m["stint_queue_oldest_seconds"])
	}
	for name, token := range map[string]string{"no token": "", "a reader": reader.Secret, "an owner of another organisation": foreign.Secret, "an invalid token": "stint_live_x"} {
		for series := range scrape(t, h, token) {
			for _, hidden := range []string{"organisation", "acme", "beta", "secret-name", running.ID, "ann"} {
				if strings.Contains(series, `"`+hidden+`"`) || strings.Contains(series, hidden+"=") {
					t.Errorf("%s: %s", name, series)
				}
			}
		}
	}
}

// labels contains the labels that /metrics may have for everyone, with all their values, or
// nil if the values are those of the server's own code.
var labels = map[string][]string{
	"method": {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"}, "route": nil, "le": nil, "quantile": nil, "version": nil,
	"status": append([]string{"completed", "failed", "timeout", "cancelled"}, statusCodes()...),
	"reason": nil, "kind": {"input", "output", "cache_read", "cache_write", "reasoning"},
	"action": {"allow", "deny"}, "direction": {"sent", "received"}, "result": {"hit", "miss"},
	"rule": {"public", "allow_list", "internal", "not_allowed", "mode_none", "special_address", "metadata", "operator", "worker", "unknown_name", "limit", "protocol", "suppressed", "other"},
}

func statusCodes() (codes []string) {
	for code := 100; code < 600; code++ {
		codes = append(codes, strconv.Itoa(code))
	}
	return codes
}

var label = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// TestMetricLabelsAreBounded sends requests and starts runs whose names, methods, and paths
// differ, and checks that they add no series. It ignores new series without labels: a gauge
// is missing while it cannot be read.
func TestMetricLabelsAreBounded(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	use := func(name string) metrics {
		installation.Agent(t, c, name, "")
		installation.Ended(t, c, installation.Create(t, c, stint.NewRun{
			Agent: name, Prompt: "exec 3<>/dev/tcp/" + name + ".invalid/80; exec 3<>/dev/tcp/10.0.0.1/80; true", Metadata: map[string]string{name: name},
		}).ID)
		for _, path := range []string{"/v1/runs/" + name, "/" + name, "/v1/agents?name=" + name} {
			req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(name), "http://"+h.Listen+path, nil)
			installation.Check(t, err)
			res, err := http.DefaultClient.Do(req)
			installation.Check(t, err)
			res.Body.Close()
		}
		return scrape(t, h, "")
	}
	use("alpha") // also scrapes /metrics for the first time
	first := use("bravo")
	for _, name := range []string{"charlie", "delta"} {
		use(name)
	}
	last := use("echo")
	for series := range last {
		if _, known := first[series]; !known && strings.Contains(series, "{") {
			t.Errorf("new series %s", series)
		}
		for _, pair := range label.FindAllStringSubmatch(series, -1) {
			values, known := labels[pair[1]]
			if !known || values != nil && !slices.Contains(values, pair[2]) {
				t.Errorf("unexpected label %s in %s", pair[0], series)
			}
		}
	}
}

var documented = regexp.MustCompile("(?m)^\\| `(stint_[a-z_]+)")

// TestMetricsAreDocumented compares the metrics of a server with the table in
// docs/operations.md, and with the expressions of the dashboard.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	token, err := c.Tokens.Create(t.Context(), stint.NewToken{Name: "prometheus"})
	installation.Check(t, err)
	registered := scrape(t, h, token.Secret).names()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	installation.Check(t, err)
	var want []string
	for _, match := range documented.FindAllStringSubmatch(string(text), -1) {
		want = append(want, match[1])
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, registered); diff != "" {
		t.Errorf("(-documented +registered):\n%s", diff)
	}
	for _, name := range dashboardMetrics(t) {
		if !slices.Contains(registered, histogramSuffix.ReplaceAllString(name, "$1")) {
			t.Errorf("the dashboard uses %s, which does not exist", name)
		}
	}
}

var metricName = regexp.MustCompile(`\bstint_[a-z_]+`)

// dashboardMetrics returns the names in the expressions of the dashboard.
func dashboardMetrics(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "stint.json"))
	installation.Check(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	installation.Check(t, json.Unmarshal(text, &board))
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			found := metricName.FindAllString(target.Expr, -1)
			if len(found) == 0 {
				t.Errorf("the panel %q has the expression %q", p.Title, target.Expr)
			}
			names = append(names, found...)
		}
	}
	if len(names) < 20 {
		t.Errorf("the dashboard uses only %d metrics", len(names))
	}
	return names
}

// waitForOutput waits until a run has written something.
func waitForOutput(t *testing.T, c *client.Client, run string) {
	t.Helper()
	for e, err := range c.Runs.Events(t.Context(), run, 0) {
		installation.Check(t, err)
		if e.Type == stint.EventOutput {
			return
		}
	}
	t.Fatal("the run ended without output")
}
