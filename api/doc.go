// Package api answers: what did we promise?
//
// The promise is openapi.yaml, written by hand: every path, parameter, status,
// header and body of the HTTP API. Tests hold every exchange with a server to
// it, and its examples serve as fixtures.
package api
