// Package pgtest answers: which PostgreSQL do the tests run against?
//
// A throw-away cluster of the installed PostgreSQL, started by the first test
// of a binary that asks for a URL and stopped when the binary's tests are
// over; each URL names a database of its own. It listens on a Unix socket in
// a folder that only its owner and root can enter, so it needs no port, no
// password and no cleaning up between runs. It keeps the server's defaults,
// fsync included, and sorts text as English does rather than by byte, so that
// a query which forgets its collation fails here and not at a user's.
//
// With STINT_TEST_POSTGRES set to the URL of a server, databases are created
// there instead and dropped after each test.
//
// A test package calls Main from its TestMain:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// Tests that need a server which dies use a Cluster of their own.
package pgtest
