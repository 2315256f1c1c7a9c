// Package control answers: how does a server speak with the warden of a sandbox?
//
// A Conn is the server's end of the control socket and of the command's
// three streams. What built the sandbox, what its processes use and how all of
// them are killed at once is the isolator's affair.
package control
