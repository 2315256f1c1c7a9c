// Package capture answers: how does a sandbox's network end up in the server's
// hands?
//
// Inside, Redirect turns a network namespace of its own into one where every IPv4
// address is this machine, and where the kernel leads each TCP connection and
// each DNS datagram, whatever its target, to one of two sockets. The sockets
// are handed to the server, and package farend makes of them the far end of the
// network: the server accepts the sandbox's connections itself and is told which address
// the program asked for. Nothing else leaves: there is no other interface, no
// IPv6 route, and no program inside has the right to change any of it.
//
// The inside half is nothing but system calls, as it is part of a sandbox's
// start.
package capture
