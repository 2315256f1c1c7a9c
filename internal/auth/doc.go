// Package auth answers: who is calling, and may they?
//
// A caller shows a token, of which only the hash is stored; Authenticate turns
// it into a Caller. What a caller may do follows from the scopes, each of
// which includes the ones below it: admin, write, read.
//
// The package also signs what the server hands out and gets back later:
// download links, stream tokens and cursors. They are authenticated under keys
// derived from one secret and need no row in the database.
package auth
