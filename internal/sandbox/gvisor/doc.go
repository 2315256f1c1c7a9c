// Package gvisor implements sandboxes with gVisor, a kernel in user space between
// the agent and the host's kernel. gVisor's program, runsc, is linked into this
// program (package embedded), or an external runsc binary is used.
//
// A sandbox of this package is a sandbox of package namespace in which init
// starts runsc instead of the agent. The root, limits, network, and cleanup of
// package namespace therefore apply to the agent's kernel. Inside gVisor, the
// first process is the init of package agentinit. It inherits the control socket
// through gVisor, which also passes descriptors that the server sends. Several users
// exist in gVisor only; on the host, gVisor runs as the user that owns the agent's
// files.
//
// Sandboxes of this package differ from those of package namespace: gVisor enforces
// the process limit, the memory limit applies to the agent and gVisor together, and
// mounts can be added in Prepare only.
package gvisor
