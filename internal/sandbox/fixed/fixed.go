// Package fixed answers: what do both sides of a sandbox's wall agree on?
//
// It is the part of package sandbox that programs inside need too: they start
// the faster the less they are made of, as all that a package imports readies
// itself before it.
package fixed

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

// Error is a failure to set up or start that the user can act on.
type Error struct {
	Message string // a sentence for the user
	Err     error
}

// Error gives the sentence.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
