//go:build linux && (amd64 || arm64)

package setup

import (
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// The descriptors that init is born with; the mounts' follow.
const (
	ControlFD = 3
	PlanFD    = 4
	MountFD   = 5
)

// Plan is all that init must know to build the root.
type Plan struct {
	UserRange bool // init is user 0 of a range; else it is user 1000, the only one
	Entries   []layout.Entry
	Etc       []layout.File
	Mounts    []Mount // shorter targets first
	// Image, when it has a Source, is the tree whose parts System shows.
	Image Mount
	// Trust, when it has a Source, is a file of certificates that lies over the
	// system's own.
	Trust  Mount
	Filter []unix.SockFilter
	ShmMax int64 // bytes of /dev/shm; 0 leaves it to the kernel
	TmpMax int64 // bytes of a /tmp in memory; 0 leaves it to the kernel
	// Network asks for a captured network, whose sockets go out with ready.
	Network bool
	Kernel  Kernel
}

// Carry carries the plan.
func (p *Plan) Fields(c *agentinit.Coder) {
	c.Bool(&p.UserRange)
	agentinit.List(c, &p.Entries, func(c *agentinit.Coder, e *layout.Entry) {
		c.String(&e.Path)
		c.String(&e.Link)
		c.Bool(&e.File)
		c.String(&e.Source)
	})
	agentinit.List(c, &p.Etc, fileFields)
	agentinit.List(c, &p.Mounts, mountFields)
	mountFields(c, &p.Image)
	mountFields(c, &p.Trust)
	agentinit.FilterFields(c, &p.Filter)
	c.Int64(&p.ShmMax)
	c.Int64(&p.TmpMax)
	c.Bool(&p.Network)
	p.Kernel.Fields(c)
}

func mountFields(c *agentinit.Coder, m *Mount) {
	c.String(&m.Target)
	c.String(&m.Source)
	c.Int(&m.FD)
	c.Bool(&m.Writable)
	c.Bool(&m.MakeTarget)
	c.Strings(&m.Layers)
	c.String(&m.Upper)
	c.String(&m.AliasOf)
}

// Attachment is what a sandbox is given after it was prepared. It travels as a
// memory file, and behind it the trees of the mounts whose FD is not 0, in order.
type Attachment struct {
	Mounts         []Mount // shorter targets first
	ShmMax, TmpMax int64   // as in Plan
}

// Carry carries the attachment.
func (a *Attachment) Fields(c *agentinit.Coder) {
	agentinit.List(c, &a.Mounts, mountFields)
	c.Int64(&a.ShmMax)
	c.Int64(&a.TmpMax)
}

// The messages of attaching; refused is the other answer.
const (
	OpAttach   agentinit.Op = "attach"
	OpAttached agentinit.Op = "attached"
)

// MaxAttached is how many mounts one message attaches.
const MaxAttached = agentinit.MaxDescriptors - 1

// Mount is a folder that is shown inside.
type Mount struct {
	Target     string
	Source     string // bound by path when FD is 0
	FD         int
	Writable   bool
	MakeTarget bool // Target lies on init's own root and must be made
	// Layers, in place of Source, are folders that are laid over each other;
	// Upper, when not empty, takes what is changed.
	Layers []string
	Upper  string
	// Twin, when not empty, is the target of an earlier mount, which this one
	// shows again.
	AliasOf string
}
