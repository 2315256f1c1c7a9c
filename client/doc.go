// Package client is the Go client of a Stint server.
//
// A Client has a field for each kind of resource, with a method for each operation.
// Operations without such a resource are methods of the Client. Requests and
// responses are the types of package stint. Lists are iterators that fetch pages as
// needed. The stream of a run resumes after a broken connection without losing or
// repeating events.
//
// Methods return an error response of the server as an *Error. Requests that are
// safe to repeat are retried a few times after temporary failures. Requests that
// create a resource carry an Idempotency-Key, so they are safe to repeat too,
// except for FileSets.Push.
package client
