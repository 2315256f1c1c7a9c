// Package api answers: how do HTTP requests become calls?
//
// One table lists the routes: method, path, the scope that is needed and the
// handler. A request passes, in this order: identification and version
// headers, the net below panics, routing, authentication, scope, limits and
// decoding of the body, idempotency, the call of a use case. An error of any
// of these becomes a body through one table from stint.Kind to type and
// status. Handlers stand in files by noun.
package api
