package api

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/mcp"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/secrets"
	"github.com/stint-dev/stint/internal/store"
)

// Runs are the use cases of runs, sessions and checkpoints; *runs.Service is
// one.
type Runs interface {
	Create(ctx context.Context, c auth.Caller, n stint.NewRun, o runs.CreateOptions) (stint.Run, error)
	Get(ctx context.Context, c auth.Caller, id string) (stint.Run, error)
	List(ctx context.Context, c auth.Caller, f store.RunFilter, r store.Range) ([]stint.RunSummary, error)
	Cancel(ctx context.Context, c auth.Caller, id string) (stint.Run, error)
	Wait(ctx context.Context, c auth.Caller, id string, d time.Duration) (stint.Run, error)
	Metrics(ctx context.Context, c auth.Caller, id string) (stint.Metrics, error)
	Session(ctx context.Context, c auth.Caller, id string) (stint.Session, error)
	Sessions(ctx context.Context, c auth.Caller, r store.Range) ([]stint.Session, error)
	Checkpoint(ctx context.Context, c auth.Caller, id string) (stint.Checkpoint, error)
}

// Config is what the API calls, and how it behaves. The first group is
// required.
type Config struct {
	Auth        *auth.Service
	Secrets     *secrets.Service
	Agents      *agents.Service
	Artifacts   *artifacts.Service
	Runs        Runs
	Feed        *feed.Feed
	Frameworks  Frameworks
	Idempotency store.Idempotency
	Ready       func(context.Context) error // nil when the server can serve; asked by /readyz

	// Registry collects the API's own metrics and is shown at /metrics; nil:
	// neither.
	Registry *prometheus.Registry
	Log      *slog.Logger // nil: nothing is logged
	Now      func() time.Time
	Random   io.Reader
	// PublicURL begins the addresses that answers hold, without a slash at its
	// end; empty: as the client addressed the request.
	PublicURL string
	// Stop ends open streams and waits when it is done, so that a server can
	// drain; nil: never.
	Stop context.Context
	// Heartbeat is the silence after which an event stream shows that it lives;
	// 0: 15 s. WriteTimeout is how long a client may take for one write of an
	// answer; 0: 30 s.
	Heartbeat    time.Duration
	WriteTimeout time.Duration
	// BodyTimeout is how long a client may pause while it sends a body; 0: 1 min.
	BodyTimeout time.Duration
}

// New makes the handler of everything under /v1, and of /mcp, /healthz, /readyz
// and /metrics. It is safe for concurrent use and starts no goroutine.
func New(c Config) http.Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Stop == nil {
		c.Stop = context.Background()
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 30 * time.Second
	}
	if c.BodyTimeout == 0 {
		c.BodyTimeout = time.Minute
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	a := &api{c: c, mux: http.NewServeMux(), finished: newAnswers(maxAnswers)}
	a.metrics = newMetrics(c.Registry)
	a.mcp, a.origins = mcp.NewHTTP(a), trusted(c.PublicURL)
	a.mount(a.routes(), false)
	a.mount(a.publicRoutes(), true)
	a.mux.HandleFunc("/", a.notFound)
	return a
}

type api struct {
	c        Config
	mux      *http.ServeMux
	metrics  *metrics
	finished *answers
	mcp      *mcp.HTTP
	origins  *http.CrossOriginProtection
}

// mount gathers the routes of each path, so that a wrong method is answered
// where the path is known.
func (a *api) mount(routes []route, public bool) {
	endpoints := map[string]*endpoint{}
	for _, r := range routes {
		e := endpoints[r.path]
		if e == nil {
			e = &endpoint{a: a, methods: map[string]*route{}, public: public}
			endpoints[r.path] = e
			a.mux.Handle(r.path, e)
		}
		e.methods[r.method] = &r
		e.allow = allowed(e.methods)
	}
}
