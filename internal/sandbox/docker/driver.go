//go:build linux && (amd64 || arm64)

package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/capture"
	"github.com/stint-dev/stint/internal/sandbox/filter"
	"github.com/stint-dev/stint/internal/sandbox/hostview"
	"github.com/stint-dev/stint/internal/sandbox/idmap"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// Config is what the driver needs from the server.
type Config struct {
	// StateDir is a folder of the server for what Sweep must find again; made
	// when missing. One process at a time may use it.
	StateDir string
	// Instance tells several servers of a daemon apart, 1 to 32 of a-z, 0-9, -;
	// made from StateDir when empty.
	Instance string
	Logger   *slog.Logger // silent when nil
	// Private are folders of the server that no agent may see. New fails when
	// one of them, or StateDir, lies in a part of the system that all see.
	Private []string
	// Host is the daemon's address, unix://…, on this host; DefaultHost when
	// empty.
	Host string
	// Runtime is the daemon's name of what runs the containers; the daemon's
	// default when empty. It must share the host's kernel, or pass descriptors
	// of the host's sockets into the container.
	Runtime string
	// Binary is a statically linked program that imports package warden, for
	// the containers' first process; this program when empty.
	Binary string
	// TrustBundle is a file of the certificates, PEM, that programs inside are to
	// trust: it is shown in place of the system's, as it is at New. Empty leaves
	// those.
	TrustBundle string
	// DiskInterval is the least time between two looks at the size of a
	// sandbox's folders; 2 s when 0.
	DiskInterval time.Duration
}

// DefaultHost is where a daemon of the host listens.
const DefaultHost = "unix:///var/run/docker.sock"

// Driver is a sandbox.Driver of containers. It is safe for concurrent use.
type Driver struct {
	c      Config
	dir    string
	log    *slog.Logger
	client *client.Client
	daemon daemon
	view   *os.File // user namespace that shows our user's files as the agent's
	terms  agentinit.Terms
	memory int64 // bytes of the host
	// noOverlay is why folders cannot be laid over each other; nil where they can.
	noOverlay error
	bundle    []byte // Config.TrustBundle
	roots     roots

	mu   sync.Mutex // guards live
	live []string   // IDs of sandboxes not closed
}

// New readies the driver and makes one sandbox as a trial. Where the host
// lacks something, or no daemon answers, the error wraps
// sandbox.ErrUnavailable and tells what to do.
func New(c Config) (*Driver, error) {
	d, err := newDriver(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err), d.Close())
	}
	return d, nil
}

var instanceForm = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

func newDriver(c Config) (*Driver, error) {
	dir, err := filepath.Abs(c.StateDir)
	if err != nil || c.StateDir == "" {
		return nil, fmt.Errorf("docker: state folder %q: %w", c.StateDir, err)
	}
	for _, sub := range []string{dir, filepath.Join(dir, boxesDir)} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, fmt.Errorf("docker: making state folder: %w", err)
		}
	}
	if c.Instance == "" {
		sum := sha256.Sum256([]byte(dir))
		c.Instance = hex.EncodeToString(sum[:6])
	}
	if !instanceForm.MatchString(c.Instance) {
		return nil, fmt.Errorf("docker: instance %q is not 1 to 32 of a-z, 0-9 and -", c.Instance)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Host == "" {
		c.Host = DefaultHost
	}
	if c.DiskInterval == 0 {
		c.DiskInterval = 2 * time.Second
	}
	if err := hostview.CheckPrivate(append([]string{dir}, c.Private...)); err != nil {
		return nil, fmt.Errorf("%w: docker: %w", sandbox.ErrUnavailable, err)
	}
	d := &Driver{c: c, dir: dir, log: c.Logger, memory: hostMemory()}
	if c.TrustBundle != "" {
		if d.bundle, err = os.ReadFile(c.TrustBundle); err != nil {
			return nil, fmt.Errorf("docker: reading trust bundle: %w", err)
		}
	}
	return d, nil
}

// ready does what needs the daemon or rights.
func (d *Driver) ready(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("the docker driver shows agents the server's folders by ID-mapped mounts, which needs root; start the server as root, or use the namespace driver")
	}
	var err error
	if d.client, err = connect(d.c.Host); err != nil {
		return err
	}
	if d.daemon, err = d.inspectDaemon(ctx); err != nil {
		return err
	}
	if d.view, err = idmap.View(uint32(os.Geteuid()), d.daemon.agent()); err != nil {
		return err
	}
	if d.terms.Filter, err = filter.New(); err != nil {
		return err
	}
	if err := d.installWarden(); err != nil {
		return err
	}
	d.noOverlay = overlay.Try(d.dir, int(d.view.Fd()), d.daemon.agent())
	_, err = d.try(ctx)
	return err
}

// Name is "docker".
func (d *Driver) Name() string { return "docker" }

// Probe makes one sandbox and throws it away.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	daemon, err := d.inspectDaemon(ctx)
	if err == nil {
		r.Network, err = d.try(ctx)
	}
	if err != nil {
		r.Notes = []string{fmt.Sprintf("A sandbox cannot be made: %v.", err)}
		return r
	}
	r.Available, r.Limits, r.Overlay = true, daemon.limits, d.noOverlay == nil
	r.Notes = append(daemon.notes, "The limit on disk is watched every few seconds, so it can be exceeded for a moment.")
	if !r.Overlay {
		r.Notes = append(r.Notes, fmt.Sprintf("Folders cannot be laid over each other, so runs begin with copies: %v.", d.noOverlay))
	}
	if !r.Network {
		r.Notes = append(r.Notes, "Sandboxes have no network: "+capture.ErrNoRules.Error()+".")
	}
	slices.Sort(r.Notes)
	return r
}

// try makes a sandbox in which nothing runs, and tells whether it can have a
// network.
func (d *Driver) try(ctx context.Context) (network bool, err error) {
	err = sandbox.Try(ctx, d, d.dir, true)
	if errors.Is(err, capture.ErrNoRules) {
		return false, sandbox.Try(ctx, d, d.dir, false)
	}
	return err == nil, err
}

// Close gives back what the driver itself holds. Its sandboxes must be closed.
func (d *Driver) Close() error {
	if d.view != nil {
		d.view.Close()
	}
	if d.client == nil {
		return nil
	}
	if err := d.client.Close(); err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	return nil
}

func (d *Driver) admit(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.live, id) {
		return fmt.Errorf("docker: sandbox %s lives already", id)
	}
	d.live = append(d.live, id)
	return nil
}

func (d *Driver) dismiss(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live = slices.DeleteFunc(d.live, func(l string) bool { return l == id })
}

func (d *Driver) living(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.live, id)
}

func hostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// connect gives a client; nothing is sent yet.
func connect(host string) (*client.Client, error) {
	if !strings.HasPrefix(host, "unix://") {
		return nil, fmt.Errorf("the Docker daemon at %s is not on this host's unix:// socket, but sandboxes need folders of this host", host)
	}
	c, err := client.New(client.WithHost(host), client.WithUserAgent("stint"))
	if err != nil {
		return nil, fmt.Errorf("connecting to the Docker daemon: %w", err)
	}
	return c, nil
}
