// Package capture redirects all traffic of a network namespace to two sockets.
// It runs inside the sandbox.
//
// Redirect adds a route that makes every IPv4 address local, and nftables rules
// that redirect every TCP connection and every DNS datagram to one of two
// sockets, whatever its destination. Init passes the sockets to the server, which
// accepts the connections with package hostend and reads the original destination
// address of each. Other traffic cannot leave the namespace: it has only the
// loopback interface and no IPv6 route, and programs in the sandbox do not have the
// privilege to change this.
//
// The package uses only system calls: programs and packages such as net would delay
// the start of every sandbox.
package capture
