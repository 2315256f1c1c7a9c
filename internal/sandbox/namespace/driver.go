//go:build linux && (amd64 || arm64)

package namespace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
	"github.com/stint-dev/stint/internal/sandbox/rootfs"
	"github.com/stint-dev/stint/internal/sandbox/seccomp"
)

// Config contains the driver's settings.
type Config struct {
	// StateDir is a folder for the records that Sweep needs; it is created if
	// missing. Only one process may use it at a time.
	StateDir string
	// Instance distinguishes servers on one host: 1 to 32 characters of a-z,
	// 0-9, and -; derived from StateDir if empty.
	Instance string
	Logger   *slog.Logger // silent when nil
	// Private are folders of the server that agents must not see. New fails if
	// one of them, or StateDir, is in a part of the system that every sandbox
	// shows.
	Private []string
	// UIDBase is the first of 2^27 user and group IDs that sandboxes use if the
	// server runs as root; DefaultUIDBase if 0.
	UIDBase uint32
	// Kernel, if not nil, is a user-space kernel that runs the agents.
	Kernel *Kernel
	// DiskInterval is the minimum time between two scans of a sandbox's
	// folders; 2 s if 0.
	DiskInterval time.Duration
	// TrustBundle is a PEM file of the certificate authorities that programs
	// inside trust, in place of the system's; empty keeps the system's.
	TrustBundle string
}

// Driver is a sandbox.Driver with namespaces. It is safe for concurrent use.
type Driver struct {
	dir          string
	trust        string // absolute path of the trust bundle, or empty
	log          *slog.Logger
	bootID       string
	ranges       *userRanges // nil if the server does not run as root
	groups       *cgroup.Parent
	template     setup.Plan
	diskInterval time.Duration
	kernel       *Kernel // nil without a user-space kernel
	memory       int64   // memory of the host in bytes; 0 if unknown
	// noOverlay is the reason why overlays do not work; nil if they do.
	noOverlay error

	live sync.Map // IDs of sandboxes that are not closed
}

// New prepares a sandbox as a trial and returns the driver. If the host lacks a
// requirement, the error wraps sandbox.ErrUnavailable and names the requirement.
func New(c Config) (*Driver, error) {
	d, err := newDriver(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if d.noOverlay = overlay.CheckWhiteouts(d.dir); d.noOverlay == nil {
		d.noOverlay = sandbox.TryOverlay(ctx, d, d.dir)
	}
	if d.noOverlay == nil {
		return d, nil
	}
	if err := sandbox.Try(ctx, d, d.dir, false); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	return d, nil
}

func newDriver(c Config) (*Driver, error) {
	if c.StateDir == "" {
		return nil, errors.New("namespace: the state folder is not set")
	}
	dir, err := filepath.Abs(c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("namespace: state folder %q: %w", c.StateDir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("namespace: creating state folder: %w", err)
	}
	if c.Instance == "" {
		sum := sha256.Sum256([]byte(dir))
		c.Instance = hex.EncodeToString(sum[:6])
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.UIDBase = cmp.Or(c.UIDBase, DefaultUIDBase)
	c.DiskInterval = cmp.Or(c.DiskInterval, 2*time.Second)
	if err := rootfs.CheckPrivate(append([]string{dir}, c.Private...)); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	if c.TrustBundle != "" {
		if c.TrustBundle, err = filepath.Abs(c.TrustBundle); err != nil {
			return nil, fmt.Errorf("namespace: trust bundle: %w", err)
		}
	}
	d := &Driver{dir: dir, trust: c.TrustBundle, log: c.Logger, diskInterval: c.DiskInterval, kernel: c.Kernel, memory: hostMemory()}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	d.bootID = strings.TrimSpace(string(boot))
	ranged, err := hasUserRange(c.UIDBase)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	if ranged {
		d.ranges = &userRanges{base: c.UIDBase, owner: uint32(os.Geteuid()), namespaces: map[int]*os.File{}}
	}
	return d, d.openGroups(c.Instance)
}

func (d *Driver) openGroups(instance string) error {
	groups, err := cgroup.Open(cgroup.Config{Instance: instance})
	if err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	d.groups = groups
	earlier, err := d.recordedGroups()
	if err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	all := append(earlier, groups.Dirs()...)
	slices.Sort(all)
	if err := d.recordGroups(slices.Compact(all)); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	calls, err := seccomp.New()
	if err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	d.template = setup.Plan{UserRange: d.ranges != nil && d.kernel == nil, Entries: rootfs.HostEntries(), Etc: rootfs.Etc(), Filter: calls}
	return nil
}

// Name returns "namespace", or the name of the user-space kernel.
func (d *Driver) Name() string {
	if d.kernel != nil {
		return d.kernel.Name
	}
	return "namespace"
}

// Probe reports what the driver supports on this host. As a trial, it prepares and
// closes a sandbox without a network and a sandbox with a network.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	can := d.groups.Enforced()
	can.Disk = true
	can.Pids = can.Pids || d.kernel != nil // a user-space kernel enforces the process limit
	r := sandbox.Report{
		Driver:    d.Name(),
		Available: true,
		Rootless:  d.ranges == nil,
		Limits:    can,
		Overlay:   d.noOverlay == nil,
		Notes:     append(d.groups.Notes(), fmt.Sprintf("Control groups that this user may use: %s.", d.groups.Kind())),
	}
	if err := sandbox.Try(ctx, d, d.dir, false); err != nil {
		r.Available, r.Overlay, r.Limits = false, false, sandbox.Enforced{}
		r.Notes = append(r.Notes, fmt.Sprintf("A sandbox cannot be created: %v.", err))
		return r
	}
	if err := sandbox.Try(ctx, d, d.dir, true); err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("Sandboxes have no network here: %v.", err))
	} else {
		r.Network = true
	}
	if d.noOverlay != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("Overlays do not work here, so runs start with copies: %v.", d.noOverlay))
	}
	if r.Rootless {
		r.Notes = append(r.Notes, "Without root privileges agents run as the server's user in a user namespace; with root each sandbox has its own user IDs.")
	}
	for name, ok := range map[string]bool{"processor": can.CPU, "memory": can.Memory, "processes": can.Pids} {
		if !ok {
			r.Notes = append(r.Notes, fmt.Sprintf("The limit on %s is not enforced by the kernel here.", name))
		}
	}
	if d.kernel == nil && !can.Memory {
		r.Notes = append(r.Notes, memoryNote)
	}
	if note := coreDumpNote(); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if d.kernel == nil {
		r.Notes = append(r.Notes, landlockNote(setup.LandlockVersion()))
	} else {
		r.Notes = append(r.Notes, d.kernel.Note)
	}
	r.Notes = append(r.Notes, "The disk limit is checked every few seconds, so it can be exceeded briefly.")
	slices.Sort(r.Notes)
	return r
}

// landlockNote returns a sentence for the operator about the host's version of
// Landlock; version 0 means that it cannot be used.
func landlockNote(version int) string {
	switch {
	case version == 0:
		return "The kernel's Landlock is missing, disabled, or too old: only mounts and file modes keep agents from writing outside their folders (Linux 5.19 has it)."
	case !setup.LandlockHasScopes(version):
		return fmt.Sprintf("Landlock (version %d) keeps agents from writing outside their folders, in addition to mounts and file modes; signals and abstract sockets are isolated by namespaces only (Linux 6.12 adds them).", version)
	}
	return fmt.Sprintf("Landlock (version %d) isolates files, signals, and sockets, in addition to namespaces, mounts, and file modes.", version)
}

// Close releases the driver's own resources. Its sandboxes must have been closed.
func (d *Driver) Close() error {
	if err := d.groups.Close(); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if d.ranges != nil {
		d.ranges.closeNamespaces()
	}
	return nil
}

func hostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
