// Package egress answers: do the programs that agents use reach what they may,
// and is each request logged?
//
// It holds no code but tests. They run in a network namespace of their own, in
// which addresses of the internet lead to the loopback interface: servers that
// the tests start there are, to the service, servers on the internet.
package egress
