// Package capture redirects all traffic of a network namespace to two sockets.
// It runs inside the sandbox.
//
// Redirect adds a route that makes every IPv4 address local, and nftables rules
// that redirect every UDP datagram to port 53, and every TCP connection to an address
// outside 127.0.0.0/8, to one of two sockets. Init passes the sockets to the server, which
// accepts the connections with package hostend and reads the original destination
// address of each. Other traffic cannot leave the namespace: it has only the
// loopback interface and no IPv6 route, and programs in the sandbox do not have the
// privilege to change this.
//
// The package uses only system calls: programs and packages such as net would delay
// the start of every sandbox.
package capture
