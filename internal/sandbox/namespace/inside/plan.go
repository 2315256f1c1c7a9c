//go:build linux && (amd64 || arm64)

package inside

import (
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/warden"
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
	Filter []unix.SockFilter
	ShmMax int64 // bytes of /dev/shm; 0 leaves it to the kernel
	TmpMax int64 // bytes of a /tmp in memory; 0 leaves it to the kernel
}

// Carry carries the plan.
func (p *Plan) Carry(c *warden.Coder) {
	c.Flag(&p.Ranged)
	warden.List(c, &p.System, func(c *warden.Coder, e *SystemEntry) {
		c.Text(&e.Path)
		c.Text(&e.Link)
		c.Flag(&e.File)
	})
	file := func(c *warden.Coder, f *File) {
		c.Text(&f.Name)
		c.Bytes(&f.Data)
	}
	warden.List(c, &p.Etc, file)
	warden.List(c, &p.Mounts, func(c *warden.Coder, m *Mount) {
		c.Text(&m.Target)
		c.Text(&m.Source)
		c.Integer(&m.FD)
		c.Flag(&m.Writable)
		c.Flag(&m.Make)
	})
	warden.List(c, &p.Filter, codeInstruction)
	c.Number(&p.ShmMax)
	c.Number(&p.TmpMax)
}

func codeInstruction(c *warden.Coder, f *unix.SockFilter) {
	n := int64(f.Code)<<16 | int64(f.Jt)<<8 | int64(f.Jf)
	k := int64(f.K)
	c.Number(&n)
	c.Number(&k)
	if !c.Reading {
		return
	}
	*f = unix.SockFilter{Code: uint16(n >> 16), Jt: uint8(n >> 8), Jf: uint8(n), K: uint32(k)}
}

// File is a small file of /etc.
type File struct {
	Name string
	Data []byte
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
