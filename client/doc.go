// Package client answers: how does a Go program talk to a Stint server?
//
// A Client has one member for each kind of resource, with one method for each
// thing that the API can do; requests and answers are the types of package
// stint. Lists are iterators that fetch pages as they are needed. The stream of
// a run resumes by itself where a connection broke, without losing or
// repeating an event.
//
// What the server refuses is an *Error. Requests that are safe to repeat are
// repeated a few times when the server or the network fails for a moment;
// those that create something carry an Idempotency-Key, which makes them safe.
package client
