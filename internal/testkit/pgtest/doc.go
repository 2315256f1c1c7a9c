// Package pgtest starts PostgreSQL servers for tests.
//
// URL creates a database in a temporary cluster of the installed PostgreSQL and returns
// its URL. The first call in a test binary starts the cluster, and Main stops it after
// the tests. The cluster listens on a Unix socket in a folder that only its owner and
// root can enter, so it needs no port and no password. It has the default settings of
// PostgreSQL, including fsync, except that text sorts by English rules instead of by
// byte, so that tests detect a query that requires byte order but lacks a collation.
//
// If STINT_TEST_POSTGRES contains the URL of a server, databases are created there
// instead and dropped after each test.
//
// A test package calls Main from its TestMain:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// Tests that crash the server use NewCluster.
package pgtest
