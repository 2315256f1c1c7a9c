// Package api serves the HTTP API.
//
// The functions routes, fileSetRoutes, and publicRoutes list the routes with
// method, path, required scope, and handler. A request passes these steps, in this
// order: the headers for request ID and version, recovery from panics, routing,
// authentication, check of the scope, limits and decoding of the body, idempotency,
// and a use case. The variable kinds maps the kinds of errors to types and status
// codes. Handlers are in files named after their resource.
package api
