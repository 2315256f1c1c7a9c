package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options says what to measure; the zero value measures everything in the
// system's folder for temporary files, on SQLite.
type Options struct {
	Only     []string // names of scenarios; all when empty
	Quick    bool     // smaller amounts
	Data     string   // folder in which temporary ones are made
	Database string   // postgres:// URL under which databases may be made; SQLite when empty
	// Command starts this program: the executable and what goes before the
	// arguments `serve` and `bench host`; our own executable when empty.
	Command []string
	// Progress is told what is being measured; may be nil.
	Progress func(scenario string)
	// Amounts replaces those of Quick or of a full run.
	Amounts *Amounts
}

// Amounts says how much is measured.
type Amounts struct {
	Each        time.Duration // one rate
	Anchor      time.Duration // one anchor
	Samples     int           // of one latency
	Streams     int           // of the latency of streams
	Fanout      int           // streams of the fan-out
	Rows        int           // runs in the long list
	Echoes      int           // runs of the throughput
	OfferedRate float64       // creations per second
	Files       int           // of the sets of small files
	LargeBytes  int64         // of the set of large files
	Entries     int           // files of the tree whose download begins, and of the large volume
	// The large artifact.
	ArtifactBytes int64
	ArtifactFiles int
}

// FullAmounts take ten to twenty minutes, QuickAmounts some three.
var (
	FullAmounts = Amounts{
		Each: 4 * time.Second, Anchor: time.Second, Samples: 500, Streams: 1000, Fanout: 10_000,
		Rows: 1_000_000, Echoes: 400, OfferedRate: 2000,
		Files: 20_000, LargeBytes: 2 << 30, Entries: 1_000_000, ArtifactBytes: 5 << 30, ArtifactFiles: 50_000,
	}
	QuickAmounts = Amounts{
		Each: 800 * time.Millisecond, Anchor: 250 * time.Millisecond, Samples: 100, Streams: 1000, Fanout: 2000,
		Rows: 100_000, Echoes: 60, OfferedRate: 2000,
		Files: 4000, LargeBytes: 256 << 20, Entries: 100_000, ArtifactBytes: 128 << 20, ArtifactFiles: 2000,
	}
)

// scenario measures one thing and adds rows to the report.
type scenario struct {
	name  string
	about string
	limit time.Duration
	run   func(*lab, context.Context) error
}

var scenarios = []scenario{
	{"create", "rate and latency of POST /v1/runs", 30 * time.Second, (*lab).benchCreate},
	{"claim", "from a creation to the worker that holds the run", 20 * time.Second, (*lab).benchClaim},
	{"echo", "from a creation to the agent's first output", 30 * time.Second, (*lab).benchEcho},
	{"sandbox", "starts, memory and network of sandboxes, beside other ways to isolate", 2 * time.Minute, (*lab).benchSandbox},
	{"agents", "what runs of installed agents cost beyond the agents' own time", 3 * time.Minute, (*lab).benchAgents},
	{"throughput", "runs from creation to end, through the sandbox", 40 * time.Second, (*lab).benchThroughput},
	{"journal", "durable events", 40 * time.Second, (*lab).benchJournal},
	{"stream", "from an append to the readers of many streams", 40 * time.Second, (*lab).benchStream},
	{"fanout", "deliveries to very many streams, and their memory", 90 * time.Second, (*lab).benchFanout},
	{"get", "reading one run", 40 * time.Second, (*lab).benchGet},
	{"list", "pages of a short and a long list", 90 * time.Second, (*lab).benchList},
	{"cancel", "from a cancel to the worker that is told", 20 * time.Second, (*lab).benchCancel},
	{"content", "versions of files: stored, restored, archived, beside other programs that keep versions", 20 * time.Minute, (*lab).benchContent},
	{"serve", "start, idle memory and the life after kill -9", 40 * time.Second, (*lab).benchServe},
}

// Scenarios lists what can be measured: name and a phrase about it.
func Scenarios() [][2]string {
	out := make([][2]string, len(scenarios))
	for i, s := range scenarios {
		out[i] = [2]string{s.name, s.about}
	}
	return out
}

// lab is one run of the benchmark.
type lab struct {
	o        Options
	a        Amounts
	dir      string // temporary
	database string // of the current scenario; empty for SQLite
	current  string // scenario
	rows     []Row
	folders  int
}

// Run measures. A scenario that fails is a row with its error, not an error;
// an error says that nothing could be measured or that ctx ended.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	chosen, err := choose(o.Only)
	if err != nil {
		return nil, err
	}
	l, err := newLab(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	name, err := l.databaseName(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Machine: describeMachine(l.dir, name), Quick: o.Quick, StartedAt: time.Now()}
	for _, s := range chosen {
		if o.Progress != nil {
			o.Progress(s.name)
		}
		if err := l.measure(ctx, s); err != nil {
			return nil, err
		}
	}
	r.Rows, r.LoadEnd, r.Seconds = l.rows, loadAverage(), time.Since(r.StartedAt).Seconds()
	return r, nil
}

func newLab(o Options) (*lab, error) {
	l := &lab{o: o, a: FullAmounts}
	if o.Quick {
		l.a = QuickAmounts
	}
	if o.Amounts != nil {
		l.a = *o.Amounts
	}
	if len(o.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		l.o.Command = []string{self}
	}
	var err error
	if l.dir, err = os.MkdirTemp(o.Data, "stint-bench-"); err != nil {
		return nil, fmt.Errorf("make a temporary folder (name another place with --data): %w", err)
	}
	return l, nil
}

// choose finds scenarios by name, in their own order.
func choose(only []string) ([]scenario, error) {
	if len(only) == 0 {
		return scenarios, nil
	}
	var chosen []scenario
	for _, s := range scenarios {
		if slices.Contains(only, s.name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range only {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no scenario '%s'; there are %s", name, strings.Join(names(), ", "))
		}
	}
	return chosen, nil
}

func names() []string {
	out := make([]string, len(scenarios))
	for i, s := range scenarios {
		out[i] = s.name
	}
	return out
}

// measure runs a scenario within its limit, on a database of its own. Only the
// end of ctx is an error.
func (l *lab) measure(ctx context.Context, s scenario) error {
	l.current = s.name
	limited, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not done within %s", s.limit))
	defer cancel()
	err := l.withDatabase(limited, func() error { return s.run(l, limited) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		if limited.Err() != nil {
			err = errors.Join(context.Cause(limited), err)
		}
		l.add(Row{What: s.about, Error: err.Error()})
	}
	return nil
}

// add puts a row of the current scenario into the report.
func (l *lab) add(r Row) {
	r.Scenario = l.current
	l.rows = append(l.rows, r)
}

// compare fills a row's anchor, with the ratio of two numbers of one kind.
func (r Row) compare(anchor string, m Measure, measured, by float64) Row {
	r.Anchor, r.AnchorMeasured, r.Ratio = anchor, &m, share(measured, by)
	return r
}

// folder makes a fresh folder. Its path is short: a socket will lie in it.
func (l *lab) folder() (string, error) {
	l.folders++
	dir := filepath.Join(l.dir, fmt.Sprint(l.folders))
	return dir, os.Mkdir(dir, 0o700)
}

// inWorld opens a service in this process for f.
func (l *lab) inWorld(ctx context.Context, f func(w *world, dir string) error) (err error) {
	dir, err := l.folder()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := openWorld(ctx, dir, l.database)
	if err != nil {
		cancel()
		return err
	}
	defer func() { cancel(); err = errors.Join(err, w.Close(), os.RemoveAll(dir)) }()
	return f(w, dir)
}

// withServer starts `stint serve` on an empty folder for f.
func (l *lab) withServer(ctx context.Context, f func(s *service) error, flags ...string) (err error) {
	dir, err := l.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return l.serving(ctx, dir, f, flags...)
}

// serving starts `stint serve` on a folder for f.
func (l *lab) serving(ctx context.Context, dir string, f func(s *service) error, flags ...string) (err error) {
	s, err := l.serve(ctx, dir, flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return f(s)
}

// withHost starts a host for f.
func (l *lab) withHost(ctx context.Context, f func(c *child, h hosted) error, args ...string) (err error) {
	c, err := l.spawn(append([]string{"bench", "host"}, args...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	var h hosted
	if err := c.read(ctx, &h); err != nil {
		return fmt.Errorf("start a host: %w", err)
	}
	return f(c, h)
}
