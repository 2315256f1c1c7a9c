// Package layout defines the paths, attributes, and entries of a sandbox's file
// system. Both the server and init use them.
//
// It is separate from package sandbox because init starts faster with fewer imports.
package layout

// The paths in every sandbox. They are the same for all runs, because agents'
// programs refuse to resume a conversation in another folder.
const (
	HomeDir      = "/home/agent"
	WorkspaceDir = "/workspace"
	RunDir       = "/run/stint" // read-only files for the agent, such as its prompt
)

// The extended attributes of overlay folders.
const (
	OverlayAttrs = "user.overlay."
	OpaqueAttr   = OverlayAttrs + "opaque" // if "y", the folder hides the folders of the same path in lower layers
)
