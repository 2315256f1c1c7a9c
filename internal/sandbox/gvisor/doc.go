// Package gvisor answers: how is an agent kept from the host's kernel?
//
// By another kernel between them: gVisor's, which runs in user space, answers
// the agent's system calls itself, and asks the host's for very little. It is
// linked into this program (package embedded), or an external runsc.
//
// A sandbox of this package is one of package namespace in which init starts
// runsc where the agent would have been. So all that holds there holds here, for
// the agent's kernel: the root that it shows, the groups that limit it, the
// network that ends at the server, and the end of everything with the server.
// Inside, the first process is the warden again, with the same socket: gVisor
// passes on its messages, and the descriptors with them. The agent's user exists
// in gVisor only; around it there is one user alone, the agent on the host's
// files.
//
// Where a kernel differs: the limit of processes is held inside, that of memory
// holds for the agent and its kernel together, and mounts are taken at Prepare
// only.
package gvisor
