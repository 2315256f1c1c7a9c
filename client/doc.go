// Package client is the Go client of a Stint server.
//
// A Client has a member for each kind of resource, with a method for each
// operation of the API. Requests and responses are the types of package stint.
// Lists are iterators that fetch pages as needed. The stream of a run resumes
// after a broken connection without losing or repeating events.
//
// An error response is an *Error. Requests that are safe to repeat are retried a
// few times after temporary failures. Requests that create something carry an
// Idempotency-Key, which makes them safe.
package client
