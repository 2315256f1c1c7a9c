//go:build linux && (amd64 || arm64)

package setup

import (
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// The descriptors that init inherits. Those of the mounts' trees begin with MountFD.
const (
	ControlFD = 3
	PlanFD    = 4
	MountFD   = 5
)

// Plan contains all settings with which init builds the sandbox. The server sends it in
// a memory file.
type Plan struct {
	UserRange bool // init is user 0 of a range of user IDs; otherwise it is user 1000, the only user
	Entries   []layout.Entry
	Etc       []layout.File
	Mounts    []Mount // shorter targets first
	// Image, if it has a Source, is the unpacked image that contains Entries.
	// Otherwise Entries are parts of the host's system.
	Image Mount
	// Trust, if it has a Source, is a file of certificates that is mounted over
	// the system's.
	Trust  Mount
	Filter []unix.SockFilter
	ShmMax int64 // size of /dev/shm in bytes; 0 is the kernel's default
	TmpMax int64 // size of a /tmp in memory in bytes; 0 is the kernel's default
	// Network requests a captured network. Init sends its sockets with ready.
	Network bool
	Kernel  Kernel
}

// Attachment contains the mounts and limits that are added to a prepared sandbox. It
// is sent as a memory file, followed by the trees of the mounts with FD != 0, in the
// order of Mounts.
type Attachment struct {
	Mounts         []Mount // shorter targets first
	ShmMax, TmpMax int64   // as in Plan
}

// The messages for attaching. Init answers with attached or refused.
const (
	OpAttach   agentinit.Op = "attach"
	OpAttached agentinit.Op = "attached"
)

// MaxAttached is the maximum number of mounts in one message.
const MaxAttached = agentinit.MaxDescriptors - 1

// Mount is a host folder, an overlay of host folders, or, for Plan.Trust, a host file that
// is shown inside.
type Mount struct {
	Target     string
	Source     string // bound by path if FD is 0
	FD         int    // descriptor of the mount's tree; in an Attachment, 1 if the tree is sent; 0 without a tree
	Writable   bool
	MakeTarget bool // Target is on init's own root and must be created
	// Layers are the lower folders of an overlay, in place of Source. Upper, if
	// not empty, is its upper folder.
	Layers []string
	Upper  string
	// AliasOf, if not empty, is the target of an earlier mount that is shown
	// here again.
	AliasOf string
}
