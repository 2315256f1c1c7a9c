// Package api serves the HTTP API.
//
// A table lists the routes with method, path, required scope, and handler. A
// request passes, in this order: identification and version headers, recovery
// from panics, routing, authentication, scope, limits and decoding of the body,
// idempotency, and a use case. A table maps the kinds of errors to types and
// status codes. Handlers are in files named after their resource.
package api
