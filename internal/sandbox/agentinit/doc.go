// Package agentinit answers: who commands a sandbox from within?
//
// The warden is the first process of a sandbox, or the first that an isolator
// starts in it. It starts the command that the server orders over a socket,
// passes on what ends it, reaps all processes, and tells how the command ended.
// Each isolator gets one into its sandboxes in its own way; from there on all
// are the same, and package session is the server's end of the socket.
//
// It imports little, as all of its program's start is part of a sandbox's.
package agentinit
