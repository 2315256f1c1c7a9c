// Package run executes one run on a worker.
//
// A run is a list of steps, with a file for each of them. A step that acquires
// something returns a function that releases it; these functions are called in
// reverse order when the run ends. The database decides how a run ends: a cancel is
// committed first, and then the run's context is cancelled. If a cancel and the end of
// the agent race, the first commit wins and the other result is dropped.
package run

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/pool"
	"github.com/stint-dev/stint/internal/telemetry"
	"github.com/stint-dev/stint/internal/worker/checkout"
	"github.com/stint-dev/stint/internal/worker/output"
	"github.com/stint-dev/stint/internal/worker/usage"
)

// Defaults of a Config.
const (
	DefaultExitGrace    = 5 * time.Second
	DefaultCancelGrace  = 800 * time.Millisecond
	DefaultTimeoutGrace = 10 * time.Second
)

// Config configures the runs of a worker. Dispatcher, Driver, Library, IDs, and
// Now are required.
type Config struct {
	Dispatcher dispatch.Dispatcher
	Driver     sandbox.Driver // for definitions that do not name a sandbox
	// Isolator returns another driver by its name, or an error that says why the
	// driver is not available. If it is nil, only Driver is available.
	Isolator    func(ctx context.Context, name string) (sandbox.Driver, error)
	Images      Images          // if nil, runs use only the host's own system
	Gate        *egress.Gateway // if nil, sandboxes have no network
	TrustBundle string          // file with the certificates that sandboxes must trust for TLS interception
	AgentCLIs   AgentCLIs       // if nil, no agent CLI is installed
	// Frameworks returns the framework of a definition. The default is registry.Find.
	Frameworks func(*stint.Definition) (framework.Framework, error)
	// RunToken returns the token with which the agent may call the API. If it is nil,
	// agents cannot call the API.
	RunToken     func(a *dispatch.Assignment) (string, error)
	Library      *files.Library
	IDs          *stint.IDs
	Now          func() time.Time
	Logger       *slog.Logger
	Metrics      *telemetry.Product // if nil, nothing is counted
	ExitGrace    time.Duration      // between the agent's terminal event and SIGTERM
	CancelGrace  time.Duration      // between SIGTERM and SIGKILL after a cancel or any other cause except the time limit and the loss of the lease
	TimeoutGrace time.Duration      // between SIGTERM and SIGKILL after the time limit
	Labels       map[string]string  // of the worker, for placement
	SetupLimit   time.Duration      // time limit of each of Prepare, Attach, and Start of a sandbox
	Resources    sandbox.Resources  // limits that apply if the definition does not set them
}

// SetDefaults sets fields that are zero to their defaults.
func (c *Config) SetDefaults() {
	if c.Frameworks == nil {
		c.Frameworks = registry.Find
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Metrics == nil {
		c.Metrics = telemetry.NewProduct(nil)
	}
	c.ExitGrace = cmp.Or(c.ExitGrace, DefaultExitGrace)
	c.CancelGrace = cmp.Or(c.CancelGrace, DefaultCancelGrace)
	c.TimeoutGrace = cmp.Or(c.TimeoutGrace, DefaultTimeoutGrace)
	c.SetupLimit = cmp.Or(c.SetupLimit, sandbox.SetupLimit)
}

// Shared contains the parts that all runs of a worker use. It is safe for concurrent use.
type Shared struct {
	Config
	Cache   *checkout.Cache
	Starts  *checkout.Starts
	Pool    *pool.Pool
	WorkDir string // contains the folders of the runs
	Health  *Health
	// Keep is called with the folder of a run whose worker stops or lost its lease,
	// instead of removing the folder. Its state can then be stored by Salvage.
	Keep func(dir string) error

	reports sync.Map // sandbox.Report by the driver's name
}

// step is a part of a run. Its undo function, if it is not nil, is called at the
// end of the run, even if the step failed.
type step struct {
	name   string // name in error messages
	do     func(ctx context.Context, s *state) (undo, error)
	always bool // executed even after a failed step
}

type undo func(ctx context.Context) error

var steps = []step{
	{"check the definition", resolve, false},
	{"directories", directories, false},
	{"sandbox", prepareSandbox, false},
	{"network", connect, false},
	{"start", start, false},
	{"supervise", supervise, false},
	{"snapshot", snapshot, true},
	{"finish", finish, true},
}

// undoLimit bounds the time for all undo functions of a run.
const undoLimit = time.Minute

// Run is one run on this worker.
type Run struct {
	s    *state
	done chan struct{} // closed when Execute returns
}

// state is the data that the steps of a run share.
type state struct {
	*Shared
	a      dispatch.Assignment
	log    *slog.Logger
	life   *lifetime
	masker *masking.Masker
	output *output.Pipeline
	stdin  *output.Stdin
	meter  *usage.Meter
	ended  chan struct{} // closed after the agent's terminal event

	target     // set by resolve
	layout     // set by directories
	sandbox    sandbox.Sandbox
	disconnect func() // ends the sandbox's network; idempotent
	plan       framework.Plan
	previous   framework.Conversation // record in the home folder at the start of the run; zero if there was none
	started    bool                   // the agent may have run, so its state must be stored
	outcome    outcome
	saved      saved

	recorder    atomic.Pointer[recorder] // nil until the command is started
	memoryKills int64                    // processes killed for the memory limit; written by sampleUsage
}

// New returns a run. ctx must not end before the run does; use LoseOwnership to
// end it.
func New(ctx context.Context, shared *Shared, a dispatch.Assignment) *Run {
	secrets := slices.AppendSeq(slices.Collect(maps.Values(a.Stored)), maps.Values(a.Given))
	s := &state{
		Shared: shared, a: a, log: shared.Logger.With("run", a.Run.ID), life: newLifetime(ctx), masker: masking.NewMasker(secrets),
		stdin: output.NewStdin(), ended: make(chan struct{}), disconnect: func() {},
	}
	var outputLimit int64
	s.meter = usage.NewMeter(stint.Limits{}, nil, false)
	if spec := a.Plan; spec != nil {
		f, _ := catalog.Find(spec.Definition.Framework)
		outputLimit = spec.OutputBytes
		s.meter = usage.NewMeter(spec.Limits, spec.Definition.Provider, f.ReportsCost)
		s.meter.Continue(a.Run.Usage)
	}
	s.output = output.Open(s.life.owned, output.Config{
		Masker: s.masker, Journal: s.Dispatcher, Position: a.Position, Limit: outputLimit, Framework: s.framework(), Stdin: s.stdin,
		Signals: s, Fenced: func() { s.life.lose(ErrStopped) }, Now: s.Now, Logger: s.log,
	})
	return &Run{s, make(chan struct{})}
}

// Done returns a channel that is closed when Execute returns.
func (r *Run) Done() <-chan struct{} { return r.done }

// LoseOwnership ends the run without a result, because this worker does not own
// it any more. The first cause counts.
func (r *Run) LoseOwnership(cause error) { r.s.life.lose(cause) }

// Execute executes the run to its end. It always finishes and cleans up.
func (r *Run) Execute() {
	defer close(r.done)
	s, ctx := r.s, r.s.life.ctx
	defer s.life.lose(nil)
	var undos []undo
	defer func() {
		if err := undoAll(ctx, undos); err != nil {
			s.log.Error("clean up after run", "error", err)
		}
	}()
	defer s.watchOwnership()()
	defer s.limitTime()()
	failed := false
	for _, step := range steps {
		if failed && !step.always {
			continue
		}
		undo, err := step.do(ctx, s)
		if undo != nil {
			undos = append(undos, undo)
		}
		if err != nil {
			failed = true
			s.outcome = s.setupFailed(step.name, err)
			if s.outcome.status == stint.Failed {
				s.output.System("error", s.outcome.message, map[string]any{"step": step.name})
			}
		}
	}
}

// undoAll calls the functions in reverse order, whether or not ctx has ended.
func undoAll(ctx context.Context, undos []undo) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	var errs []error
	for _, undo := range slices.Backward(undos) {
		errs = append(errs, undo(ctx))
	}
	return errors.Join(errs...)
}

// Heard, Used, Ended, and Stop implement output.Signals.
func (s *state) Heard()                           { s.meter.Heard(s.Now()) }
func (s *state) Used(u *stint.Usage, turns int64) { s.meter.SetAgent(u, turns) }
func (s *state) Ended()                           { close(s.ended) }
func (s *state) Stop(reason error)                { s.life.cancel(reason) }

func (s *state) definition() *stint.Definition { return &s.a.Plan.Definition }

// since returns log metadata with the time since t.
func (s *state) since(t time.Time) map[string]any {
	return map[string]any{"durationMs": stint.TimeOf(s.Now()).Sub(stint.TimeOf(t).Time).Milliseconds()}
}
