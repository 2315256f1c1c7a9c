// Package fixed answers: what do both sides of a sandbox's wall agree on?
//
// It is the part of package sandbox that programs inside need too: they start
// the faster the less they are made of, as all that a package imports readies
// itself before it.
package layout

// The fixed places inside every sandbox. Agent command lines refuse to resume a
// conversation elsewhere than where it began.
const (
	HomeDir      = "/home/agent"
	WorkspaceDir = "/workspace"
	RunDir       = "/run/stint" // read-only files for the agent, such as its prompt
)

// The extended attributes of folders that lie over each other.
const (
	OverlayAttrs = "user.overlay."
	OpaqueAttr   = OverlayAttrs + "opaque" // "y" on a folder that hides those below
)
