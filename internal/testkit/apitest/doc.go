// Package apitest checks HTTP exchanges against the API document.
//
// Client returns an HTTP client that compares every exchange with
// api/openapi.yaml: the request, unless the test marks it as invalid, and the
// status, headers, and body of the response. It checks event streams block by block
// while they are read. Walk sends valid, odd, and hostile requests to every
// operation.
//
// The tests of this package run servers with faulty responses. For each check, a test
// requires that the check reports a violation of the document.
package apitest
