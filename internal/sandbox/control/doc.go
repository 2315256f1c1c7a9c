// Package control implements the server's side of the connection to a sandbox's
// init process. It runs on the host.
//
// A Conn sends commands over the control socket and copies the command's three
// streams. The isolator builds the sandbox, measures its usage, and kills its
// processes.
package control
