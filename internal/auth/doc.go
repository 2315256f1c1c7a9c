// Package auth authenticates callers and checks their permissions.
//
// A caller sends a token, of which only the hash is stored; Authenticate returns
// the Caller. Permissions follow from scopes: admin includes write, and write
// includes read.
//
// The package also signs download links, stream tokens, and cursors. They are
// verified with keys derived from one secret and are not stored.
package auth
