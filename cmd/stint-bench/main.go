// Command stint-bench measures Stint and the machine under it in the same run.
//
// Each scenario also measures an anchor: the performance of the machine itself at
// that moment (a synced write, a bare HTTP handler, another program). Ratios to the
// anchor can be compared between machines and times of day; absolute values cannot.
//
// Most scenarios start `stint serve` in a child process; --stint selects the binary.
// The others measure the packages that are linked into this program. Everything runs
// in temporary folders and on the loopback interface.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/sandbox/gvisor/embedded"
)

func main() {
	// A gVisor sandbox starts this binary as runsc. In such a process, MaybeRunsc does
	// not return.
	embedded.MaybeRunsc()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the command line args and returns the exit code: 1 if a scenario
// failed, 2 for wrong usage, and otherwise 0. A missed goal is not a failure.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && partners[args[0]] != nil {
		if err := catch(func() { partners[args[0]](ctx, args[1:], stdout) }); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	o := options{progress: stderr, amounts: fullAmounts}
	var asJSON, quick bool
	flags := pflag.NewFlagSet("stint-bench", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { usage(stderr, flags) }
	flags.BoolVar(&quick, "quick", false, "measure smaller amounts")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.StringVar(&o.stint, "stint", "", "`path` of the stint binary to measure (default: ./cmd/stint is built)")
	flags.StringVar(&o.data, "data", "", "`folder` for temporary files, on the disk to be measured (default: the system's)")
	flags.StringVar(&o.database, "database", os.Getenv("STINT_DATABASE"), "PostgreSQL to measure instead of SQLite, as a postgres:// `URL`; databases are created and dropped there")
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	var chosen []scenario
	if err == nil {
		chosen, err = choose(flags.Args())
	}
	if err != nil {
		fmt.Fprintln(stderr, "stint-bench:", err)
		return 2
	}
	if quick {
		o.amounts = quickAmounts
	}
	report, err := measure(ctx, o, chosen)
	switch {
	case err != nil:
	case asJSON:
		err = json.NewEncoder(stdout).Encode(report)
	default:
		err = report.Write(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "stint-bench:", err)
		return 1
	}
	return min(report.count(Broken), 1)
}

func usage(w io.Writer, flags *pflag.FlagSet) {
	fmt.Fprint(w, `Usage: stint-bench [flags] [scenario...]

Without a scenario, all are measured. SHORT means that a goal was missed, which is
a result. ERROR means that something could not be measured; the exit code is then 1.

Scenarios:
`)
	for _, s := range scenarios {
		fmt.Fprintf(w, "  %-12s %s\n", s.name, s.about)
	}
	fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsages())
}

// options contains the settings of one run of the benchmark.
type options struct {
	stint    string // binary to measure
	data     string // folder for temporary files
	database string // postgres:// URL; SQLite if empty
	progress io.Writer
	amounts
}

// amounts contains the durations, the numbers of samples, and the sizes of the data
// with which scenarios measure.
type amounts struct {
	kind                   string
	each, anchor           time.Duration // duration of measuring one rate, and its anchor
	samples                int           // number of measurements of one latency
	streams, fanoutStreams int
	listed                 int     // runs in the long list
	rate                   float64 // creations per second
	files, largeBytes      int     // number of small files; total bytes of large files
	entries                int     // files of the large volume
	artifactBytes          int
	artifactFiles          int
}

var (
	fullAmounts = amounts{
		kind: "full", each: 4 * time.Second, anchor: time.Second, samples: 500, streams: 1000, fanoutStreams: 10_000, listed: 1_000_000, rate: 2000,
		files: 20_000, largeBytes: 2 << 30, entries: 1_000_000, artifactBytes: 5 << 30, artifactFiles: 50_000,
	}
	quickAmounts = amounts{
		kind: "quick (smaller amounts: not to be quoted)", each: 800 * time.Millisecond, anchor: 250 * time.Millisecond, samples: 100, streams: 1000, fanoutStreams: 2000, listed: 100_000, rate: 2000,
		files: 4000, largeBytes: 256 << 20, entries: 100_000, artifactBytes: 128 << 20, artifactFiles: 2000,
	}
)

// scenario measures one thing and adds rows to the report.
type scenario struct {
	name  string
	about string
	run   func(*lab, context.Context)
}

var scenarios = []scenario{
	{"create", "rate and latency of POST /v1/runs", (*lab).create},
	{"claim", "time from the creation of a run until a worker has it", (*lab).claim},
	{"echo", "time from the creation of a run to its first output", (*lab).echo},
	{"sandbox", "start, memory, and network of sandboxes, beside other isolation programs", (*lab).sandboxes},
	{"agents", "what runs of installed agents take beyond the agents' own time", (*lab).agents},
	{"throughput", "complete runs per second, through the sandbox", (*lab).throughput},
	{"journal", "durable events per second", (*lab).journal},
	{"stream", "time from an append to the readers of many streams", (*lab).stream},
	{"fanout", "deliveries to very many streams, and memory of a stream", (*lab).fanout},
	{"get", "reads of one run per second", (*lab).get},
	{"list", "pages of a short and a long list", (*lab).list},
	{"cancel", "time from a cancel until the worker is woken", (*lab).cancel},
	{"content", "versions of files: stored, restored, archived, beside other programs", (*lab).content},
	{"serve", "start, idle memory, and restart after kill -9", (*lab).serve},
}

// choose returns the scenarios with the names, or all scenarios if names is empty.
func choose(names []string) (chosen []scenario, err error) {
	for _, name := range names {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario '%s'; --help lists the scenarios", name)
		}
		chosen = append(chosen, scenarios[i])
	}
	if len(names) == 0 {
		chosen = scenarios
	}
	return chosen, nil
}

// lab is one run of the benchmark.
type lab struct {
	options
	self     string // path of this program
	dir      string // temporary folder
	dsn      string // of the current scenario's database; empty for SQLite
	scenario string
	cleanups []func() error // of the current scenario
	rows     []Row
}

// measure runs the chosen scenarios and returns their report. If a scenario fails, the
// report has a row with its error. measure returns an error if the preparation or the
// final cleanup fails, or if ctx ends.
func measure(ctx context.Context, o options, chosen []scenario) (r *Report, err error) {
	l := &lab{options: o}
	err = catch(func() {
		l.self = must(os.Executable())
		l.dir = must(os.MkdirTemp(o.data, "stint-bench-"))
		l.findStint(ctx)
		r = &Report{Head: machineFacts(l.stint, l.dir, l.databaseName(ctx)), StartedAt: time.Now().UTC()}
		load := loadAverage()
		for _, s := range chosen {
			fmt.Fprintf(o.progress, "measuring %s …\n", s.name)
			l.measure(ctx, s)
		}
		r.Rows, r.Seconds = l.rows, time.Since(r.StartedAt).Seconds()
		r.Head = append(r.Head,
			fmt.Sprintf("Load:      %s at the beginning, %s at the end; %.0f s", load, loadAverage(), r.Seconds),
			fmt.Sprintf("Amounts:   %s, started %s", l.kind, r.StartedAt.Format(time.DateTime+"Z")))
	})
	return r, errors.Join(err, os.RemoveAll(l.dir))
}

// findStint makes the path of the binary to measure absolute. If the options do not
// contain a path, findStint builds the binary from the sources.
func (l *lab) findStint(ctx context.Context) {
	if l.stint != "" {
		l.stint = must(filepath.Abs(l.stint))
		return
	}
	l.stint = filepath.Join(l.dir, "stint")
	execute(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", l.stint, "github.com/stint-dev/stint/cmd/stint")
}

// measure runs a scenario on its own database.
func (l *lab) measure(ctx context.Context, s scenario) {
	l.scenario = s.name
	err := catch(func() {
		l.createDatabase(ctx)
		s.run(l, ctx)
	})
	for _, f := range slices.Backward(l.cleanups) {
		err = errors.Join(err, f())
	}
	l.cleanups = nil
	check(ctx.Err())
	if err != nil {
		l.add(Row{What: s.about, Error: err.Error()})
	}
}

// cleanup registers f to be called after the scenario. The functions are called in the
// reverse order of their registration.
func (l *lab) cleanup(f func() error) { l.cleanups = append(l.cleanups, f) }

// add adds a row of the current scenario to the report. Goals with a limit of 0 are
// left out.
func (l *lab) add(r Row, goals ...Goal) {
	r.Scenario, r.Goals = l.scenario, slices.DeleteFunc(goals, func(g Goal) bool { return g.Limit == 0 })
	l.rows = append(l.rows, r)
}

// folder creates a folder that is removed after the scenario. Its path is short
// enough for a socket in it.
func (l *lab) folder() string {
	dir := must(os.MkdirTemp(l.dir, ""))
	l.cleanup(func() error { return os.RemoveAll(dir) })
	return dir
}
