// Package contract tests the behaviour that the API promises.
//
// The tests start the whole service on each supported database and use it only through
// HTTP. They write states that a client cannot cause, such as an expired token,
// directly into the database.
package contract
