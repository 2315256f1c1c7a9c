package api

import (
	"cmp"
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
	"github.com/stint-dev/stint/internal/lru"
	"github.com/stint-dev/stint/internal/mcp"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/secrets"
	"github.com/stint-dev/stint/internal/store"
)

// Runs contains the use cases of runs, sessions, and checkpoints. *runs.Service
// implements it.
type Runs interface {
	Create(ctx context.Context, c auth.Caller, n stint.NewRun, o runs.CreateOptions) (stint.Run, error)
	Get(ctx context.Context, c auth.Caller, id string) (stint.Run, error)
	List(ctx context.Context, c auth.Caller, f store.RunFilter, r store.Range) ([]stint.RunSummary, error)
	Cancel(ctx context.Context, c auth.Caller, id string) (stint.Run, error)
	AddQueue(ctx context.Context, c auth.Caller, r *stint.Run) error
	Metadata(ctx context.Context, c auth.Caller, id string) (map[string]string, error)
	ChangeMetadata(ctx context.Context, c auth.Caller, id string, change map[string]*string) (stint.Run, error)
	Wait(ctx context.Context, c auth.Caller, id string, d time.Duration) (stint.Run, error)
	Metrics(ctx context.Context, c auth.Caller, id string) (stint.Metrics, error)
	Activity(ctx context.Context, c auth.Caller, limit int) (stint.Activity, error)
	Session(ctx context.Context, c auth.Caller, id string) (stint.Session, error)
	Sessions(ctx context.Context, c auth.Caller, r store.Range) ([]stint.Session, error)
	Checkpoint(ctx context.Context, c auth.Caller, id string) (stint.Checkpoint, error)
}

// Config contains the dependencies and settings of the API. The members of the
// first group are required.
type Config struct {
	Auth        *auth.Service
	Secrets     *secrets.Service
	Agents      *agents.Service
	Artifacts   *artifacts.Service
	Runs        Runs
	Feed        *feed.Feed
	Frameworks  Frameworks
	Idempotency store.Idempotency
	Ready       func(context.Context) error // returns an error if the server is not ready; used by /readyz

	// Registry receives the API's metrics and is served at /metrics. If it is
	// nil, metrics are disabled.
	Registry *prometheus.Registry
	// OrgMetrics is served at /metrics beside Registry if the request has the token of
	// an operator. It may be nil.
	OrgMetrics prometheus.Gatherer
	Log        *slog.Logger     // default: no log
	Now        func() time.Time // default: time.Now
	Random     io.Reader        // default: crypto/rand.Reader
	// PublicURL is the prefix of URLs in responses. The default is the scheme and
	// the host of the request.
	PublicURL string
	// Stop ends event streams and waiting requests when it is done. The default is
	// a context that never ends.
	Stop context.Context
	// Heartbeat is the time without events after which an event stream sends a
	// heartbeat. The default is 15 s.
	Heartbeat time.Duration
	// WriteTimeout is the time that a client has to read each part of a response
	// (at most 1 MiB). The default is 30 s.
	WriteTimeout time.Duration
	// BodyTimeout is the maximum pause of a client while it sends a body. The
	// default is 1 min.
	BodyTimeout time.Duration
}

// New returns the handler of /v1, /mcp, /healthz, /readyz, and /metrics. It is safe
// for concurrent use and does not start goroutines.
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
	c.Heartbeat = cmp.Or(c.Heartbeat, 15*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, time.Minute)
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	a := &api{c: c, mux: http.NewServeMux(), finalRuns: lru.New[string, *finalRun](maxFinalRuns)}
	a.metrics = newMetrics(c.Registry)
	a.mcp, a.origins = mcp.NewHTTP(a), trustedOrigins(c.PublicURL)
	a.mount(a.routes(), false)
	a.mount(a.publicRoutes(), true)
	a.mux.HandleFunc("/", a.notFound)
	return a
}

type api struct {
	c         Config
	mux       *http.ServeMux
	metrics   *metrics
	finalRuns *lru.Cache[string, *finalRun] // ended runs by organisation and run ID
	mcp       *mcp.HTTP
	origins   *http.CrossOriginProtection
}

// mount registers the routes, with one endpoint for all routes of a path. Therefore
// a request with an unsupported method is authenticated before it is refused.
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
		e.allow = allowHeader(e.methods)
	}
}
