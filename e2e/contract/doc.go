// Package contract answers: does every promise that the API makes hold?
//
// It holds no code but tests. They start the whole service on each database it
// can use and ask over HTTP only what a client can ask; each test is named
// after the promise that it holds the service to. What no client can bring
// about, such as a token whose days are over, is written into the database.
package contract
