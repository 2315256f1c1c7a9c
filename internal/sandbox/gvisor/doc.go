// Package gvisor implements sandboxes with gVisor, a kernel in user space
// between the agent and the host's kernel. It is linked into this program
// (package embedded), or an external runsc binary is used.
//
// A sandbox of this package is a sandbox of package namespace in which init
// starts runsc instead of the agent. The root, limits, network, and cleanup of
// package namespace therefore apply to the agent's kernel. Inside gVisor, the
// first process is again agentinit's init: gVisor passes the control socket and
// its descriptors through. The agent's user exists in gVisor only; on the host,
// the kernel runs as a single user that is the agent's user on files.
//
// Differences to package namespace: the process limit is enforced inside, the
// memory limit applies to the agent and its kernel together, and mounts can be
// added at Prepare only.
package gvisor
