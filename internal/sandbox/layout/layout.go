// Package layout defines the paths, attributes, and entries of a sandbox's file
// system that both the server and programs inside use.
//
// It is separate from package sandbox because programs inside start faster with
// fewer imports.
package layout

// The fixed paths inside every sandbox. Agent command lines refuse to resume a
// conversation in another folder.
const (
	HomeDir      = "/home/agent"
	WorkspaceDir = "/workspace"
	RunDir       = "/run/stint" // read-only files for the agent, such as its prompt
)

// The extended attributes of overlay folders.
const (
	OverlayAttrs = "user.overlay."
	OpaqueAttr   = OverlayAttrs + "opaque" // "y" on a folder that hides the folders below it
)
