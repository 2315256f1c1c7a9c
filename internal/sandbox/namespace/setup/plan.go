//go:build linux && (amd64 || arm64)

package setup

import (
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/fixed"
)

// The descriptors that init is born with; the mounts' follow.
const (
	ControlFD = 3
	PlanFD    = 4
	MountFD   = 5
)

// Plan is all that init must know to build the root.
type Plan struct {
	Ranged bool // init is user 0 of a range; else it is user 1000, the only one
	System []SystemEntry
	Etc    []File
	Mounts []Mount // shorter targets first
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
	Inner   Inner
}

// Carry carries the plan.
func (p *Plan) Carry(c *agentinit.Coder) {
	c.Flag(&p.Ranged)
	agentinit.List(c, &p.System, func(c *agentinit.Coder, e *SystemEntry) {
		c.Text(&e.Path)
		c.Text(&e.Link)
		c.Flag(&e.File)
		c.Text(&e.Source)
	})
	agentinit.List(c, &p.Etc, carryFile)
	agentinit.List(c, &p.Mounts, codeMount)
	codeMount(c, &p.Image)
	codeMount(c, &p.Trust)
	agentinit.Instructions(c, &p.Filter)
	c.Number(&p.ShmMax)
	c.Number(&p.TmpMax)
	c.Flag(&p.Network)
	p.Inner.Carry(c)
}

func codeMount(c *agentinit.Coder, m *Mount) {
	c.Text(&m.Target)
	c.Text(&m.Source)
	c.Integer(&m.FD)
	c.Flag(&m.Writable)
	c.Flag(&m.Make)
	c.Texts(&m.Layers)
	c.Text(&m.Upper)
	c.Text(&m.Twin)
}

// File is a file of /etc that the sandbox makes.
type File = fixed.File

// SystemEntry is a part of the host's system, or of the image's.
type SystemEntry = fixed.Entry

// Attachment is what a sandbox is given after it was prepared. It travels as a
// memory file, and behind it the trees of the mounts whose FD is not 0, in order.
type Attachment struct {
	Mounts         []Mount // shorter targets first
	ShmMax, TmpMax int64   // as in Plan
}

// Carry carries the attachment.
func (a *Attachment) Carry(c *agentinit.Coder) {
	agentinit.List(c, &a.Mounts, codeMount)
	c.Number(&a.ShmMax)
	c.Number(&a.TmpMax)
}

// The messages of attaching; refused is the other answer.
const (
	OpAttach   agentinit.Op = "attach"
	OpAttached agentinit.Op = "attached"
)

// MaxAttached is how many mounts one message attaches.
const MaxAttached = agentinit.MaxRights - 1

// Mount is a folder that is shown inside.
type Mount struct {
	Target   string
	Source   string // bound by path when FD is 0
	FD       int
	Writable bool
	Make     bool // Target lies on init's own root and must be made
	// Layers, in place of Source, are folders that are laid over each other;
	// Upper, when not empty, takes what is changed.
	Layers []string
	Upper  string
	// Twin, when not empty, is the target of an earlier mount, which this one
	// shows again.
	Twin string
}
