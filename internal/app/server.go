package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/blob/quota"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/index"
	"github.com/stint-dev/stint/internal/http/admin"
	"github.com/stint-dev/stint/internal/http/api"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sealing/keyring"
	"github.com/stint-dev/stint/internal/secrets"
	"github.com/stint-dev/stint/internal/worker"
	"github.com/stint-dev/stint/internal/worker/agentcli"
	"github.com/stint-dev/stint/internal/worker/run"
)

// Info contains the addresses of a started server.
type Info struct {
	URL     string
	Socket  string // path of the admin socket, which only the data folder's owner can use
	DataDir string
}

// Options contains options of Run; the zero value is usable.
type Options struct {
	Logger *slog.Logger
	// Ready is called once, when the server accepts requests.
	Ready func(Info)
}

// shutdownLimit is the time that open requests have to finish during shutdown.
const shutdownLimit = 5 * time.Second

// server contains the opened parts of a running server.
type server struct {
	c    config.Config
	log  *slog.Logger
	ids  *stint.IDs
	data *dataFolder
	keys *keys
	db   *database

	quota    *quota.Store
	keyring  *keyring.Keyring
	library  *files.Library
	feed     *feed.Feed
	dispatch *dispatch.Local
	auth     *auth.Service
	programs *agentcli.Finder
	worker   *worker.Worker
	inner    lateHandler // the API for agents in sandboxes
	images   *images     // nil without a worker
	offers   *offers     // nil without a worker
	metrics  metrics

	closers []func() error
}

// Run serves until ctx ends, then stops all parts in order and returns nil. It returns an
// error for the operator if a part cannot be opened, fails, or cannot be closed.
func Run(ctx context.Context, c config.Config, o Options) (err error) {
	s := newServer(c, o.Logger)
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.logSecretNotices(ctx); err != nil {
		return err
	}
	if err := s.openWorker(ctx); err != nil {
		return err
	}
	return s.serve(ctx, o.Ready)
}

// newServer returns a server without opening it. log may be nil.
func newServer(c config.Config, log *slog.Logger) *server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &server{c: c, log: log, ids: newIDs(), metrics: newMetrics()}
}

func (s *server) closeWith(f func() error) { s.closers = append(s.closers, f) }

func (s *server) close() error {
	var errs []error
	for _, v := range slices.Backward(s.closers) {
		errs = append(errs, v())
	}
	return errors.Join(errs...)
}

// openDatabase opens the data folder, the keys, and the database.
func (s *server) openDatabase(ctx context.Context) (err error) {
	if s.data, err = openData(s.c.Data, s.ids); err != nil {
		return err
	}
	s.closeWith(s.data.close)
	if s.keys, err = openKeys(s.data); err != nil {
		return err
	}
	if s.db, err = openDatabase(ctx, &s.c, s.data, s.log); err != nil {
		return err
	}
	s.closeWith(s.db.Close)
	s.closeWith(s.db.bus.Close)
	s.keyring = keyring.New(keyring.Config{Store: s.db, Sealer: s.keys.sealer, Now: time.Now})
	return nil
}

// open opens all parts except the worker and the listeners.
func (s *server) open(ctx context.Context) (err error) {
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if s.programs, err = openPrograms(s.data.join("programs")); err != nil {
		return err
	}
	if err := s.openContent(ctx); err != nil {
		return err
	}
	s.feed = feed.New(s.db, s.db.bus, s.db.crossProcess)
	s.dispatch = dispatch.NewLocal(dispatch.Config{
		Store: s.db, Bus: s.db.bus, Feed: s.feed, Sealer: s.keys.sealer, Now: time.Now, Logger: s.log, Metrics: s.metrics.product,
		Lease: s.c.LeaseTTL, PerOrg: s.c.PerOrg, PerAgent: s.c.PerAgent, Labels: s.c.Labels,
	})
	s.auth = auth.New(auth.Config{Store: s.db, IDs: s.ids, Now: time.Now, Key: s.keys.signing, Runs: s.db})
	return nil
}

// recount is the maximum time until the quota of a server includes objects that other
// servers stored or deleted.
const recount = 15 * time.Minute

func (s *server) openContent(ctx context.Context) error {
	blobs, err := s.openStorage(ctx)
	if err != nil {
		return err
	}
	s.quota = quota.New(blobs.all, quota.Options{Limit: int64(s.c.StorageQuota), Recount: recount, Uncounted: func(key string) bool {
		_, _, derived := files.ParseDerivedKey(key)
		return derived
	}})
	s.closeWith(s.quota.Close)
	temp := s.data.join("tmp")
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("remove temporary files: %w", err)
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return fmt.Errorf("create the folder of temporary files: %w", err)
	}
	index, err := index.Open(s.data.join("index"))
	if err != nil {
		return fmt.Errorf("open the chunk index: %w", err)
	}
	s.closeWith(index.Close)
	if s.library, err = files.New(s.quota.WithLinks(), files.Options{
		TempDir: temp, IDs: s.ids, Index: index, Marks: gcAdapter{s.db}, SealedStore: s.quota.Wrap(blobs.sealed),
	}); err != nil {
		return fmt.Errorf("open the library of files: %w", err)
	}
	return nil
}

// openWorker creates the worker. It also ends or re-queues the runs of an earlier process
// of this installation.
func (s *server) openWorker(ctx context.Context) error {
	out, err := s.openEgress()
	if err != nil {
		return err
	}
	isolators, err := openIsolators(ctx, hostParts{
		c: &s.c, state: s.data.join("sandbox"), private: []string{s.data.path}, instance: strings.TrimPrefix(s.data.host, "host_"), trust: out.trust, log: s.log,
	})
	if err != nil {
		return err
	}
	s.closeWith(isolators.close)
	images, err := s.openImages(ctx)
	if err != nil {
		return err
	}
	s.offers = &offers{store: s.db, host: s.data.host, labels: s.c.Labels, isolators: isolators, images: images, frameworks: s.programs.Frameworks}
	driver, err := isolators.get(ctx, s.c.Isolation)
	if err != nil {
		return err
	}
	r := s.c.Resources
	s.worker, err = worker.New(ctx, worker.Config{
		Config: run.Config{
			Dispatcher: s.dispatch, Driver: driver, Isolator: isolators.named, Images: images, AgentCLIs: s.programs, Gate: out.gate, TrustBundle: out.trust,
			RunToken: s.runToken, Library: s.library, IDs: s.ids, Now: time.Now, Logger: s.log, Metrics: s.metrics.product,
			Labels:    s.c.Labels,
			Resources: sandbox.Resources{CPU: r.CPU, Memory: int64(r.Memory), Disk: int64(r.Disk), Pids: r.Pids},
		},
		Dir: s.data.join("worker"), Host: s.data.host, Capacity: s.c.Capacity, PoolSize: s.c.Parked,
		Drain: max(s.c.Drain, time.Nanosecond), // a drain time of 0 means at once in s.c, but the default in worker.Config
	})
	if err != nil {
		return fmt.Errorf("open worker: %w", err)
	}
	return s.endEarlierWorkers(ctx)
}

// endEarlierWorkers ends or re-queues the runs of earlier processes of this installation.
// The state that they left is stored later.
func (s *server) endEarlierWorkers(ctx context.Context) error {
	running, err := s.db.RunningOnHost(ctx, s.data.host)
	if err != nil {
		return err
	}
	if err := s.db.EndWorkersOnHost(ctx, s.data.host); err != nil {
		return fmt.Errorf("end earlier workers: %w", err)
	}
	lost, err := s.dispatch.Reap(ctx)
	if err != nil {
		return err
	}
	if lost > 0 {
		s.log.Warn("ended or re-queued the runs of an earlier process", "runs", lost)
	}
	var ended []string
	for _, id := range running {
		if status, _, err := s.db.RunState(ctx, id); err != nil {
			return err
		} else if status.Final() {
			ended = append(ended, id)
		}
	}
	s.worker.ReportMissing(ctx, ended)
	return nil
}

// runToken returns the token with which the agent of a run calls the API. The token
// expires later than the run's time limit, because the limit starts only when the
// sandbox is ready. The token becomes invalid when the run ends.
func (s *server) runToken(a *dispatch.Assignment) (string, error) {
	g := auth.RunGrant{OrgID: a.OrgID, RunID: a.Run.ID, Epoch: a.Position.Epoch, Depth: a.Plan.Depth}
	return s.auth.RunToken(g, a.Plan.Timeout+10*time.Minute)
}

// socketServer returns the server of the socket in the data folder. stop stops this
// server.
func (s *server) socketServer(address string, stop func()) *http.Server {
	return admin.NewServer(admin.Config{
		Auth: s.auth, Keys: s.keyring, Maintenance: s.maintenance(), GCGrace: s.c.GCGrace, URL: address,
		Drain: s.c.Drain, Ready: s.ready, Stop: stop, Metrics: s.metrics.all(), Log: s.log,
	})
}

// serve opens the listeners, and starts the worker and the jobs. When ctx ends or a
// listener fails, serve stops all of them in order and returns.
func (s *server) serve(ctx context.Context, ready func(Info)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listener, err := net.Listen("tcp", s.c.Listen)
	if err != nil {
		return fmt.Errorf("listen (choose another address with --listen): %w", err)
	}
	address := s.address(listener)
	socket, err := admin.Listen(s.data.join(config.SocketName))
	if err != nil {
		_ = listener.Close()
		return err
	}
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	s.registerMetrics()
	handler := s.handler(streams)
	s.inner.set(handler)
	api := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	login := s.socketServer(address, stop)

	jobsCtx, stopJobs := context.WithCancel(context.WithoutCancel(ctx))
	defer stopJobs()
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	var background, listeners, worker sync.WaitGroup
	failed := make(chan error, 2)
	listeners.Go(func() { failed <- serveUntilClosed(api, listener) })
	listeners.Go(func() { failed <- serveUntilClosed(login, socket) })
	background.Go(func() { jobs.Run(jobsCtx, s.log, s.jobs()...) })
	background.Go(func() { s.dispatch.RunRetries(jobsCtx) })
	worker.Go(func() {
		if err := s.worker.Run(working); err != nil {
			s.log.Error("worker", "error", err)
		}
	})
	if ready != nil {
		ready(Info{URL: address, Socket: s.data.join(config.SocketName), DataDir: s.data.path})
	}

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-failed:
	}
	s.log.Info("stopping; runs may continue for the drain time", "drain", s.c.Drain)
	stopWorking()
	worker.Wait()
	endStreams()
	shutdown(context.WithoutCancel(ctx), api, login)
	listeners.Wait()
	stopJobs()
	background.Wait()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
	defer cancel()
	return errors.Join(cause, s.auth.Flush(flush))
}

// address returns the URL of the API: PublicURL, or the listener's address as seen
// from this machine.
func (s *server) address(l net.Listener) string {
	if s.c.PublicURL != "" {
		return s.c.PublicURL
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "http://" + l.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

func (s *server) runs() *runs.Service {
	return runs.New(runs.Config{Store: s.db, Dispatch: s.dispatch, Bus: s.db.bus, Sealer: s.keys.sealer, IDs: s.ids, Now: time.Now, MaxDepth: s.c.MaxDepth, Healthy: s.healthy})
}

func (s *server) handler(streams context.Context) http.Handler {
	return api.New(api.Config{
		Auth:        s.auth,
		Secrets:     secrets.New(secrets.Config{Store: s.db, Sealer: s.keys.sealer, Now: time.Now}),
		Agents:      agents.New(agents.Config{Store: s.db, IDs: s.ids, Now: time.Now, Check: s.offers.check}),
		Artifacts:   s.artifacts(),
		Runs:        s.runs(),
		Feed:        s.feed,
		Frameworks:  s.programs,
		Idempotency: s.db,
		Ready:       s.ready,
		Registry:    s.metrics.registry,
		OrgMetrics:  s.metrics.orgs,
		Log:         s.log,
		PublicURL:   s.c.PublicURL,
		Stop:        streams,
	})
}

// ready returns an error if the database does not answer or the worker takes no runs.
func (s *server) ready(ctx context.Context) error {
	if err := s.db.Ping(ctx); err != nil {
		return err
	}
	return s.healthy()
}

// healthy returns nil, or the reason why the worker takes no runs.
func (s *server) healthy() error {
	if s.worker == nil {
		return nil
	}
	return s.worker.Healthy()
}

func serveUntilClosed(srv *http.Server, l net.Listener) error {
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// shutdown stops the servers. It waits up to shutdownLimit for open requests, and then
// closes their connections.
func shutdown(ctx context.Context, servers ...*http.Server) {
	ctx, cancel := context.WithTimeout(ctx, shutdownLimit)
	defer cancel()
	for _, srv := range servers {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
	}
}
