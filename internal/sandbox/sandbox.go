// Package sandbox answers: what must an isolator do?
//
// It is a port. A Driver makes sandboxes in two steps: Prepare builds the
// root, the namespaces and the limits and runs no foreign code, so prepared
// sandboxes can wait in a pool; Start runs one command inside. Time limit,
// cancel, output handling, metrics ticker and snapshots lie outside: one
// implementation for all adapters, which pass the suite in sandboxtest.
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

// The fixed places inside every sandbox. Agent command lines refuse to resume
// a conversation elsewhere than where it began.
const (
	HomeDir      = layout.HomeDir
	WorkspaceDir = layout.WorkspaceDir
	RunDir       = layout.RunDir // read-only files for the agent, such as its prompt
)

// ErrUnavailable says that the host lacks what the driver needs; the wrapped
// text names it.
var ErrUnavailable = errors.New("sandbox: not available on this host")

// Report tells what a driver can do on this host, and why not more.
type Report struct {
	Driver    string
	Available bool
	Rootless  bool
	Limits    Enforced
	Network   bool     // Spec.Network works here
	Overlay   bool     // mounts of several layers, or with an Upper, work here
	Notes     []string // one sentence each, for `stint doctor`
}

// Enforced tells which limits hold here; a false one is told to the operator.
type Enforced struct{ CPU, Memory, Pids, Disk bool }

// Resources are the limits of one sandbox; a zero field is unlimited.
type Resources struct {
	CPU    float64 // cores
	Memory int64   // bytes, of all processes together
	Disk   int64   // bytes, of the writable layer
	Pids   int64   // processes and threads
}

// Mount shows a folder of the host inside the sandbox, or several as if they
// were one.
type Mount struct {
	Source   string // absolute folder on the host; empty with Layers
	Target   string // absolute, clean path inside; made when missing
	Writable bool   // of Source; with Layers, Upper tells it

	// Layers are absolute folders of the host, topmost first, none of them within
	// another, at most MaxLayers. They are read, never written, and must not
	// change until Close. What a layer leaves out of those below it, it tells as
	// Upper does. One layer without an Upper is a Source that cannot be written.
	Layers []string
	// Upper is an absolute, empty folder of the host that takes what the agent
	// changes, so that the mount can be written; empty with Layers: it cannot.
	// The driver keeps a folder of its own beside it until Close.
	//
	// Upper then holds the files that were made or changed, whole, and folders on
	// the way to them. A file or folder of the layers that is gone is a character
	// device 0:0 under its name (a whiteout). A folder that hides those of its name
	// in the layers, rather than adding to them, has the extended attribute
	// OpaqueAttr with the value "y". Other attributes that begin with OverlayAttrs
	// say nothing. No agent can make or change any of these itself. All of it
	// belongs to the server's user, as in a writable Source.
	Upper string
	// Alias are further targets that show the same.
	Alias []string
}

// MaxLayers is the most layers that a mount has.
const MaxLayers = 128

// How a folder of a mount's Upper, or of a layer, tells that it hides those of
// its name below.
const (
	OverlayAttrs = layout.OverlayAttrs
	OpaqueAttr   = layout.OpaqueAttr
)

// ErrOverlay says that folders cannot be laid over each other here. The sandbox,
// if there is one, is as before: nothing has run, and it can be given other
// mounts.
var ErrOverlay = errors.New("sandbox: folders cannot be laid over each other here")

// Spec is what a sandbox is prepared with.
type Spec struct {
	ID        string // unique among living sandboxes; [a-z0-9_-]{1,64}
	Resources Resources
	// Image is the folder of an unpacked image that the sandbox shows as its
	// root, read-only; empty shows the host's own system, as far as programs
	// need it.
	Image string
	// Scratch is an empty folder of the host that belongs to this sandbox
	// until Close. Home and Workspace are folders below the caller's control
	// that appear as HomeDir and WorkspaceDir, writable by the agent; Run, when
	// it is not empty, appears read-only as RunDir. What the caller adds to
	// them before Start is seen inside.
	Home, Workspace, Scratch, Run string
	// Network makes a network whose far end is Sandbox.Network; without it
	// there is none but the sandbox's own loopback.
	Network bool
	Mounts  []Mount
}

// Network is the far end of a sandbox's network: what a program inside sends to
// any address arrives here and nowhere else.
type Network struct {
	TCP Listener       // every TCP connection but those to the sandbox's own loopback
	DNS net.PacketConn // every UDP datagram to port 53
}

// Close ends both halves; it is idempotent.
func (n *Network) Close() error {
	err := errors.Join(n.TCP.Close(), n.DNS.Close())
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Listener accepts a sandbox's connections.
type Listener interface {
	// Accept gives the next connection, and the address that the program asked
	// for. It fails with net.ErrClosed after Close or the sandbox's end.
	Accept() (net.Conn, netip.AddrPort, error)
	Close() error
}

// ErrAttach says that this sandbox can be given no more than it was prepared
// with.
var ErrAttach = errors.New("sandbox: takes nothing more after Prepare")

// Command is what runs inside.
type Command struct {
	Argv   []string  // Argv[0] is looked up in the PATH of Env when it has no slash
	Env    []string  // complete; nothing is inherited
	Dir    string    // working directory inside; WorkspaceDir when empty
	Stdin  io.Reader // nil is empty; read until it or the command ends, a Read that blocks longer holds up nothing
	Stdout io.Writer // nil discards; called by one goroutine at a time, until Wait returns
	Stderr io.Writer // the same; it may be the very Stdout, and then their order is kept
}

// Cause tells what ended a command.
type Cause string

// The causes.
const (
	Exited    Cause = "exited"
	Signalled Cause = "signalled" // by itself or from inside
	OOMKilled Cause = "oom"
	DiskFull  Cause = "disk_full"
	Killed    Cause = "killed" // by Kill
	Lost      Cause = "lost"   // the sandbox vanished
)

// Exit is how the command ended. A program that failed is not a failed call:
// Code is its exit status, 128+n when signal n ended it.
type Exit struct {
	Code   int
	Signal int
	Cause  Cause
}

// Usage is what the sandbox has used so far.
type Usage struct {
	CPU         time.Duration // user and system, all processes
	Memory      int64         // bytes now
	MemoryPeak  int64         // bytes; 0 where unknown
	MemoryLimit int64         // bytes; the host's memory where unlimited
	Disk        int64         // bytes of the writable layer
	DiskLimit   int64         // bytes; the file system's size where unlimited
	Pids        int64
	OOMKills    int64
}

// Driver makes sandboxes. It is safe for concurrent use.
type Driver interface {
	Name() string
	// Probe tells what works here. It changes nothing that outlives it.
	Probe(ctx context.Context) Report
	// Prepare builds a sandbox in which no foreign code runs yet. ctx bounds
	// preparing only. An error leaves nothing behind.
	Prepare(ctx context.Context, s Spec) (Sandbox, error)
	// Sweep removes what sandboxes of an earlier process that shared the
	// driver's state folder left: processes, cgroups, mounts. Call it once,
	// before the first Prepare.
	Sweep(ctx context.Context) error
}

// Sandbox is one prepared or running sandbox. Methods may be called from
// several goroutines; Start is called at most once.
type Sandbox interface {
	ID() string
	// Network is the far end of its network, nil when the spec asked for none.
	// Whoever takes it closes it.
	Network() *Network
	// Attach adds what a run needs beyond what was known at Prepare: its limits
	// and its mounts. It succeeds at most once, before Start. Drivers that
	// cannot add mounts fail with ErrAttach, those that cannot lay folders over
	// each other with ErrOverlay, and the sandbox is as before.
	Attach(ctx context.Context, r Resources, mounts []Mount) error
	// Start runs the command. ctx bounds starting only, not the life. A
	// command that cannot be started (no such program) is an *Error with a
	// sentence for the user, and Close is still due.
	Start(ctx context.Context, c Command) error
	// Wait returns when the command has ended and its output was delivered.
	// The process tree may still live; Kill ends it.
	Wait(ctx context.Context) (Exit, error)
	// Usage reads the counters; it works until Close.
	Usage(ctx context.Context) (Usage, error)
	// Kill sends SIGTERM to every process inside, waits up to grace for all to
	// end, then kills what is left. It returns when none is left. It is
	// idempotent; grace 0 kills at once.
	Kill(ctx context.Context, grace time.Duration) error
	// Close kills at once and releases everything but the folders that the
	// caller passed in. It is idempotent.
	Close(ctx context.Context) error
}

// Error is a failure to set up or start that the user can act on.
type Error struct {
	Message string // a sentence for the user
	Err     error
}

// Error gives the sentence.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
