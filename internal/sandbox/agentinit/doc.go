// Package agentinit implements the init process of a sandbox and its control
// protocol. It runs inside the sandbox.
//
// Init is the first process of a sandbox, or the first process that a user-space
// kernel starts in the sandbox. It receives commands over the control socket,
// starts the agent's command, forwards termination requests, reaps all processes,
// and reports how the command ended. Each isolator starts init in its own way; the
// protocol is the same for all. Package control is the server's side of the socket.
//
// The package has few imports, because their initialization delays the start of
// every sandbox.
package agentinit
