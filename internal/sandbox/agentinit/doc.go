// Package agentinit is the init process of a sandbox and its control protocol.
// It runs inside the sandbox.
//
// Init is the first process of a sandbox, or the first one that an isolator
// starts in it. It receives commands over the control socket, starts the
// agent's command, forwards termination requests, reaps all processes, and
// reports how the command ended. Each isolator starts init in its own way; the
// protocol is the same for all. Package control is the server's side of the
// socket.
//
// The package has few imports, because its initialization is part of every
// sandbox's start.
package agentinit
