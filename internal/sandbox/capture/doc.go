// Package capture redirects all traffic of a network namespace to two sockets.
// It runs inside the sandbox.
//
// Redirect adds a route that makes every IPv4 address local, and nftables rules
// that redirect each TCP connection and each DNS datagram to one of two
// sockets, whatever its destination. The sockets are passed to the server,
// which accepts the sandbox's connections with package hostend and learns the
// original destination address. There is no other way out: the namespace has no
// other interface and no IPv6 route, and no program in the sandbox has the
// privilege to change this.
//
// The package uses only system calls, because it is part of every sandbox's
// start.
package capture
