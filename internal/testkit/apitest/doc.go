// Package apitest answers: does a server keep what the API document promises?
//
// Client gives tests an HTTP client that holds every exchange to
// api/openapi.yaml: the request (unless the test says that it is wrong on
// purpose) and the answer, its status, headers and body, event streams block
// by block as they are read. Walk goes further and sends what nobody would
// write down as a test: every operation, with valid, odd and hostile input.
//
// A checker that is wrong hides faults, so the package's own tests let small
// servers answer wrongly in each way and demand that it is found.
package apitest
