// Package sandbox defines the port for isolators.
//
// A Driver creates sandboxes in two steps. Prepare builds the root, the
// namespaces, and the limits and runs no untrusted code, so prepared sandboxes
// can wait in a pool. Start runs one command. Time limits, cancellation, output
// handling, metrics, and snapshots are implemented once for all drivers, in the
// worker. Every driver passes the suite in sandboxtest.
//
// The packages agentinit, capture, and namespace/setup run inside a sandbox,
// together with idmap, layout, and overlay, which the server uses too. All others
// run in the server, on the host.
package sandbox

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// The paths in every sandbox. They are the same for all runs, because agents'
// programs refuse to resume a conversation in another folder.
const (
	HomeDir      = layout.HomeDir
	WorkspaceDir = layout.WorkspaceDir
	RunDir       = layout.RunDir // read-only files for the agent, such as its prompt
)

// ErrUnavailable is wrapped by errors that name a requirement of the driver that the
// host does not meet.
var ErrUnavailable = errors.New("sandbox: not available on this host")

// Report describes the features that a driver supports on this host, and the reasons
// why others are missing.
type Report struct {
	Driver    string
	Available bool
	Rootless  bool // agents run as the server's user on the host
	Limits    Enforced
	Network   bool     // Spec.Network works here
	Overlay   bool     // mounts of several layers, or with an Upper, work here
	Notes     []string // one sentence each, for `stint doctor`
}

// Enforced reports which limits are enforced. Limits that are not enforced are
// reported to the operator.
type Enforced struct{ CPU, Memory, Pids, Disk bool }

// Resources are the limits of one sandbox. A zero field is unlimited.
type Resources struct {
	CPU    float64 // cores
	Memory int64   // bytes, total of all processes
	Disk   int64   // bytes, total of all writable folders
	Pids   int64   // processes and threads
}

// Mount shows one host folder, or an overlay of several, inside the sandbox.
type Mount struct {
	Source   string // absolute host folder; empty with Layers
	Target   string // absolute, clean path inside; created if missing
	Writable bool   // applies to Source; a mount of Layers is writable if it has an Upper

	// Layers are absolute host folders, topmost first, at most MaxLayers. None
	// may be inside another. They are never written to and must not change
	// until Close. Whiteouts and opaque folders in a layer hide files of the
	// layers below, as described for Upper. One layer without an Upper is the
	// same as a read-only Source.
	Layers []string
	// Upper is an absolute, empty host folder that receives the agent's
	// changes. If it is empty, a mount of Layers is read-only. The driver keeps
	// a work folder next to it until Close.
	//
	// After a command, Upper contains the files that it created or changed, with
	// their complete content, and their parent folders. A removed file or folder is
	// a character device 0:0 (a whiteout). A folder that hides the folders with its
	// name in the layers, rather than adding to them, has the extended attribute
	// OpaqueAttr with the value "y". Other attributes that begin with OverlayAttrs
	// have no meaning. Agents cannot create or change these marks. All files belong
	// to the server's user, as in a writable Source.
	Upper string
	// Alias contains further targets at which the same mount is shown.
	Alias []string
}

// MaxLayers is the maximum number of layers of a mount.
const MaxLayers = 128

// The extended attributes of overlay folders.
const (
	OverlayAttrs = layout.OverlayAttrs
	OpaqueAttr   = layout.OpaqueAttr
)

// ErrOverlay is returned if overlays cannot be mounted here. The sandbox, if
// there is one, is unchanged: no command has run, and other mounts can be
// attached.
var ErrOverlay = errors.New("sandbox: overlays cannot be mounted here")

// Spec contains the settings of a sandbox.
type Spec struct {
	ID        string // unique among existing sandboxes; [a-z0-9_-]{1,64}
	Resources Resources
	// Image is the folder of an unpacked image that is the sandbox's root,
	// read-only. If it is empty, the root shows the parts of the host's system
	// that programs need.
	Image string
	// Scratch is an empty host folder that belongs to this sandbox until Close.
	// Home and Workspace are folders of the caller that are shown as HomeDir
	// and WorkspaceDir, writable for the agent. Run, if not empty, is shown
	// read-only as RunDir. Files that the caller adds before Start are visible
	// inside.
	Home, Workspace, Scratch, Run string
	// Network requests a network, which Sandbox.Network returns. Without it
	// there is only the sandbox's own loopback.
	Network bool
	Mounts  []Mount
}

// Network is the server's end of a sandbox's network. TCP connections and DNS requests
// of programs inside arrive here, whatever their destination; other traffic does not
// leave the sandbox.
type Network struct {
	TCP Listener       // TCP connections except those to the sandbox's loopback
	DNS net.PacketConn // UDP datagrams to port 53
}

// Close closes TCP and DNS. It is idempotent.
func (n *Network) Close() error {
	err := errors.Join(n.TCP.Close(), n.DNS.Close())
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Listener accepts connections of a sandbox.
type Listener interface {
	// Accept returns the next connection and its original destination address.
	// The error wraps net.ErrClosed after Close or after the sandbox's end.
	Accept() (net.Conn, netip.AddrPort, error)
	Close() error
}

// ErrAttach is returned if limits or mounts cannot be added after Prepare.
var ErrAttach = errors.New("sandbox: nothing can be attached after Prepare")

// Command is the command to run.
type Command struct {
	Argv   []string  // if Argv[0] has no slash, it is looked up in the PATH of Env
	Env    []string  // complete; nothing is inherited
	Dir    string    // working directory inside; WorkspaceDir when empty
	Stdin  io.Reader // nil is an empty input; a Read that blocks does not delay Wait
	Stdout io.Writer // nil discards the output; written to by one goroutine at a time, until Wait returns
	Stderr io.Writer // as Stdout; if both are equal, the order of the command's writes is kept
}

// Cause is the reason why a command ended.
type Cause string

// The causes of the end of a command.
const (
	Exited    Cause = "exited"
	Signalled Cause = "signalled" // ended by a signal of a process inside, possibly its own
	OOMKilled Cause = "oom"
	DiskFull  Cause = "disk_full"
	Killed    Cause = "killed" // by Kill
	Lost      Cause = "lost"   // the sandbox ended unexpectedly
)

// Exit describes how the command ended. Code is the exit status, or 128+n if
// signal n ended it.
type Exit struct {
	Code   int
	Signal int
	Cause  Cause
}

// Usage is a sandbox's resource usage so far.
type Usage struct {
	CPU         time.Duration // user and system, all processes
	Memory      int64         // bytes in use
	MemoryPeak  int64         // bytes; 0 if unknown
	MemoryLimit int64         // bytes; the host's memory if unlimited
	Disk        int64         // bytes of the writable folders
	DiskLimit   int64         // bytes; the file system's size if unlimited
	Pids        int64
	OOMKills    int64
}

// Driver creates sandboxes. It is safe for concurrent use.
type Driver interface {
	Name() string
	// Probe reports the features that the driver supports on this host. It has no
	// lasting effects.
	Probe(ctx context.Context) Report
	// Prepare creates a sandbox without running untrusted code. ctx limits only
	// the preparation. After an error no resources are left.
	Prepare(ctx context.Context, s Spec) (Sandbox, error)
	// Sweep removes processes, cgroups, and mounts of an earlier process with
	// the same state folder. It must be called once, before the first Prepare.
	Sweep(ctx context.Context) error
}

// Sandbox is a prepared or running sandbox. Its methods may be called from
// several goroutines. Start may be called only once.
type Sandbox interface {
	ID() string
	// Network returns the sandbox's network, or nil if the spec does not request
	// one. The caller closes it.
	Network() *Network
	// Attach sets the run's limits and adds its mounts. It can succeed once,
	// before Start. It returns ErrAttach if the driver cannot add mounts, and
	// ErrOverlay if overlays are not supported; after both errors, the sandbox is
	// unchanged.
	Attach(ctx context.Context, r Resources, mounts []Mount) error
	// Start runs the command. ctx limits only the start. If the command cannot
	// be started, for example because the program does not exist, it returns an
	// *Error with a sentence for the user. The sandbox must still be closed.
	Start(ctx context.Context, c Command) error
	// Wait returns after the command has ended and its output was written. The
	// command's child processes may still run; Kill ends them.
	Wait(ctx context.Context) (Exit, error)
	// Usage returns the resource usage so far. It can be called until Close.
	Usage(ctx context.Context) (Usage, error)
	// Kill sends SIGTERM to all processes, waits up to grace for them to end,
	// and kills the rest. It returns when no process is left. It is idempotent.
	// With a grace of 0 it kills immediately.
	Kill(ctx context.Context, grace time.Duration) error
	// Close kills all processes and releases all resources except the caller's
	// folders. It is idempotent.
	Close(ctx context.Context) error
}

// Error is returned if a sandbox cannot be set up or a command cannot be started for
// a reason that the user can correct.
type Error struct {
	Message string // a sentence for the user
	Err     error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
