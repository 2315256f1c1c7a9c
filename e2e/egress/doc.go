// Package egress tests that the programs which agents use reach the allowed hosts and
// that each request is logged.
//
// The tests run in their own network namespace, in which public addresses lead to the
// loopback interface. To the service, servers that the tests start there are servers
// on the Internet.
package egress
