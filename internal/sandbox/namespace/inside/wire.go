//go:build linux && (amd64 || arm64)

package inside

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
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
	Etc    []sandbox.File
	Mounts []Mount // shorter targets first
	Files  []sandbox.File
	Filter []unix.SockFilter
	ShmMax int64 // bytes of /dev/shm; 0 leaves it to the kernel
	TmpMax int64 // bytes of a /tmp in memory; 0 leaves it to the kernel
}

func (p *Plan) code(c *coder) {
	c.flag(&p.Ranged)
	list(c, &p.System, func(c *coder, e *SystemEntry) {
		c.text(&e.Path)
		c.text(&e.Link)
		c.flag(&e.File)
	})
	file := func(c *coder, f *sandbox.File) {
		c.text(&f.Name)
		c.bytes(&f.Data)
	}
	list(c, &p.Etc, file)
	list(c, &p.Mounts, func(c *coder, m *Mount) {
		c.text(&m.Target)
		c.text(&m.Source)
		c.integer(&m.FD)
		c.flag(&m.Writable)
		c.flag(&m.Make)
	})
	list(c, &p.Files, file)
	list(c, &p.Filter, codeInstruction)
	c.number(&p.ShmMax)
	c.number(&p.TmpMax)
}

func codeInstruction(c *coder, f *unix.SockFilter) {
	n := int64(f.Code)<<16 | int64(f.Jt)<<8 | int64(f.Jf)
	k := int64(f.K)
	c.number(&n)
	c.number(&k)
	if !c.reading {
		return
	}
	*f = unix.SockFilter{Code: uint16(n >> 16), Jt: uint8(n >> 8), Jf: uint8(n), K: uint32(k)}
}

// SystemEntry is a part of the host's system: a link, or a tree to bind.
type SystemEntry struct {
	Path string
	Link string // target, when Path is a link
	File bool
}

// Mount is a folder that is shown inside.
type Mount struct {
	Target   string
	Source   string // bound by path when FD is 0
	FD       int
	Writable bool
	Make     bool // Target lies on init's own root and must be made
}

// Order is a command; its three streams travel beside it.
type Order struct {
	Argv, Env []string
	Dir       string
}

func (o *Order) code(c *coder) {
	c.texts(&o.Argv)
	c.texts(&o.Env)
	c.text(&o.Dir)
}

// op names a message. Server to init: go, start, term. Init to server: ready or
// failed, then started or refused, then exit, then empty.
type op string

// The messages, in the order of a life.
const (
	OpGo      op = "go"
	OpStart   op = "start"
	OpTerm    op = "term"
	OpReady   op = "ready"
	OpFailed  op = "failed"
	OpStarted op = "started"
	OpRefused op = "refused"
	OpExit    op = "exit"
	OpEmpty   op = "empty"
)

// Message is one packet of the control socket. Big things travel as memory
// files beside it, so that no packet nears the socket's limit.
type Message struct {
	Op     op
	Text   string
	Code   int
	Signal int
	Killed bool // the command ended after a term
}

func (m *Message) code(c *coder) {
	c.text((*string)(&m.Op))
	c.text(&m.Text)
	c.integer(&m.Code)
	c.integer(&m.Signal)
	c.flag(&m.Killed)
}

// MaxMessage bounds one packet, in bytes.
const MaxMessage = 16 << 10

// readMemoryFile does not care where the descriptor's offset stands.
func readMemoryFile(fd int, into Coded) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("reading memory file: %w", err)
	}
	b := make([]byte, st.Size)
	for n := 0; n < len(b); {
		k, err := unix.Pread(fd, b[n:], int64(n))
		if err != nil || k == 0 {
			return fmt.Errorf("reading memory file: %d of %d bytes: %w", n, len(b), err)
		}
		n += k
	}
	return Decode(b, into)
}
