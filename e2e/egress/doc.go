// Package egress tests that the programs that agents use reach the allowed hosts, and
// that each request is logged.
//
// The tests run in their own network namespace, in which some public addresses lead to
// the loopback interface. The tests start servers at these addresses. To the service,
// these servers are on the Internet.
package egress
