// Package hostile tests that the service withstands hostile agents of its users.
//
// The tests start the built program as an operator does, and run agents that attack the
// machine, the server, other runs, and the readers of their output.
package hostile
