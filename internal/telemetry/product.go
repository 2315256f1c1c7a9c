package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint"
)

// Product contains the metrics of what the product does. None of its labels has a value
// that users choose: labels are states, reasons, and other words of a fixed set. It is
// safe for concurrent use.
type Product struct {
	runsCreated    prometheus.Counter
	runsEnded      *prometheus.CounterVec
	attemptsFailed *prometheus.CounterVec
	runWait        prometheus.Histogram
	runStart       prometheus.Histogram
	runDuration    *prometheus.HistogramVec
	tokens         *prometheus.CounterVec
	modelCalls     prometheus.Counter
	cost           prometheus.Counter
	egress         *prometheus.CounterVec
	egressBytes    *prometheus.CounterVec
	events         prometheus.Counter
	appendTime     prometheus.Histogram
	appendErrors   prometheus.Counter
	leasesLost     prometheus.Counter
	runsReaped     prometheus.Counter
	startFailures  prometheus.Counter
}

// latencies are the buckets of durations from a tenth of a millisecond to a minute.
var latencies = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// waits are the buckets of durations from milliseconds to hours.
var waits = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}

// NewProduct returns the metrics, registered with r unless r is nil.
func NewProduct(r prometheus.Registerer) *Product {
	p := &Product{
		runsCreated:    counter("stint_runs_created_total", "Runs that were created."),
		runsEnded:      counters("stint_runs_ended_total", "Runs that ended, by status and status reason; the reason of a plain success is none.", "status", "reason"),
		attemptsFailed: counters("stint_run_attempts_requeued_total", "Attempts that ended without ending their run, by status reason; the run was queued again.", "reason"),
		runWait:        histogram("stint_run_wait_seconds", "Time from the creation of a run to its first claim by a worker.", waits),
		runStart:       histogram("stint_run_start_seconds", "Time from the claim of a run to the first instruction of its agent.", latencies),
		runDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stint_run_duration_seconds", Help: "Execution time of ended runs, by status, over all attempts.", Buckets: waits,
		}, []string{"status"}),
		tokens:        counters("stint_model_tokens_total", "Tokens of ended runs. Input includes the cache, and output includes reasoning.", "kind"),
		modelCalls:    counter("stint_model_calls_total", "Calls of models by ended runs."),
		cost:          counter("stint_model_cost_usd_total", "Cost of ended runs in US dollars, as far as it is known."),
		egress:        counters("stint_egress_decisions_total", "Connections, requests, and name queries of sandboxes, by action and class of the rule.", "action", "rule"),
		egressBytes:   counters("stint_egress_bytes_total", "Bytes that sandboxes sent and received through the gateway.", "direction"),
		events:        counter("stint_journal_events_total", "Events that workers appended to the journal."),
		appendTime:    histogram("stint_journal_append_seconds", "Time of an append to the journal until it is durable.", latencies),
		appendErrors:  counter("stint_journal_append_errors_total", "Appends to the journal that failed, except those of runs that had ended."),
		leasesLost:    counter("stint_worker_leases_lost_total", "Leases that this server's worker lost."),
		runsReaped:    counter("stint_runs_reaped_total", "Runs that were taken from workers without a lease."),
		startFailures: counter("stint_sandbox_start_failures_total", "Runs that ended with sandbox_error, mostly because their sandbox could not be prepared or started."),
	}
	p.initialise()
	if r != nil {
		r.MustRegister(p.runsCreated, p.runsEnded, p.attemptsFailed, p.runWait, p.runStart, p.runDuration, p.tokens, p.modelCalls, p.cost,
			p.egress, p.egressBytes, p.events, p.appendTime, p.appendErrors, p.leasesLost, p.runsReaped, p.startFailures)
	}
	return p
}

// endings contains the usual reasons by status.
var endings = map[stint.Status][]stint.Reason{
	stint.Completed: {noReason},
	stint.Cancelled: {stint.ReasonCancelled},
	stint.TimedOut:  {stint.ReasonTimeLimit, stint.ReasonIdleLimit},
	stint.Failed: {
		stint.ReasonExitCode, stint.ReasonMismatch, stint.ReasonOutOfMemory, stint.ReasonDiskFull, stint.ReasonOutputLimit, stint.ReasonWorkerLost,
		stint.ReasonSandboxError, stint.ReasonSetupFailed, stint.ReasonQueueExpired, stint.ReasonBudget,
	},
}

const noReason stint.Reason = "none" // of a run that simply completed

// initialise creates the series of the usual labels, so that they are 0 and not missing
// before the first event, and a rate includes the first event.
func (p *Product) initialise() {
	for status, reasons := range endings {
		p.runDuration.WithLabelValues(string(status))
		for _, reason := range reasons {
			p.runsEnded.WithLabelValues(string(status), string(reason))
		}
	}
	for _, reason := range []stint.Reason{stint.ReasonWorkerLost, stint.ReasonSandboxError, stint.ReasonSetupFailed, stint.ReasonExitCode, stint.ReasonTimeLimit, stint.ReasonOutOfMemory} {
		p.attemptsFailed.WithLabelValues(string(reason))
	}
	for _, kind := range []string{"input", "output", "cache_read", "cache_write", "reasoning"} {
		p.tokens.WithLabelValues(kind)
	}
	for _, rule := range []string{"public", "allow_list", "internal"} {
		p.egress.WithLabelValues("allow", rule)
	}
	for _, rule := range []string{"not_allowed", "mode_none", "special_address", "metadata", "operator", "worker", "unknown_name", "limit", "protocol", "other"} {
		p.egress.WithLabelValues("deny", rule)
	}
	for _, direction := range []string{"sent", "received"} {
		p.egressBytes.WithLabelValues(direction)
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// RunCreated counts a created run.
func (p *Product) RunCreated() { p.runsCreated.Inc() }

// RunClaimed records the time that a run waited for its first claim.
func (p *Product) RunClaimed(wait time.Duration) { p.runWait.Observe(max(0, wait.Seconds())) }

// RunStarted records the time from the claim of a run to the start of its agent.
func (p *Product) RunStarted(took time.Duration) { p.runStart.Observe(max(0, took.Seconds())) }

// RunEnded counts an ended run with its duration and its usage.
func (p *Product) RunEnded(r *stint.Run, usage *stint.Usage) {
	reason := noReason
	if r.StatusReason != nil {
		reason = *r.StatusReason
	}
	p.runsEnded.WithLabelValues(string(r.Status), string(reason)).Inc()
	if r.ExecutionTimeMs != nil {
		p.runDuration.WithLabelValues(string(r.Status)).Observe(float64(*r.ExecutionTimeMs) / 1000)
	}
	if reason == stint.ReasonSandboxError {
		p.startFailures.Inc()
	}
	if usage == nil {
		return
	}
	for kind, n := range map[string]int64{
		"input": usage.InputTokens, "output": usage.OutputTokens, "cache_read": usage.CacheReadTokens,
		"cache_write": usage.CacheWriteTokens, "reasoning": usage.ReasoningTokens,
	} {
		p.tokens.WithLabelValues(kind).Add(float64(max(0, n)))
	}
	p.modelCalls.Add(float64(max(0, usage.ModelCalls)))
	if usage.CostUSD != nil {
		p.cost.Add(max(0, *usage.CostUSD))
	}
}

// AttemptRequeued counts an attempt that ended without ending its run.
func (p *Product) AttemptRequeued(reason stint.Reason) {
	p.attemptsFailed.WithLabelValues(string(reason)).Inc()
}

// RunsReaped counts runs that were taken from workers without a lease.
func (p *Product) RunsReaped(n int) { p.runsReaped.Add(float64(n)) }

// LeaseLost counts a lost lease.
func (p *Product) LeaseLost() { p.leasesLost.Inc() }

// Appended records an append of events to the journal that took so long.
func (p *Product) Appended(events int, took time.Duration) {
	p.events.Add(float64(events))
	p.appendTime.Observe(took.Seconds())
}

// AppendFailed counts a failed append to the journal.
func (p *Product) AppendFailed() { p.appendErrors.Inc() }

// Egress counts n decisions of the egress gateway with the same action and class of the
// rule, and the bytes of the connections or requests.
func (p *Product) Egress(action, rule string, n, sent, received int64) {
	p.egress.WithLabelValues(action, rule).Add(float64(n))
	p.egressBytes.WithLabelValues("sent").Add(float64(max(0, sent)))
	p.egressBytes.WithLabelValues("received").Add(float64(max(0, received)))
}
