// Package compatibility tests that a server opens the data of earlier releases.
//
// Each folder in testdata is named after the commit of the program that wrote it. It
// holds two installations (SQLite and a folder; PostgreSQL, a bucket, and
// encryption at rest) and a recording of what their API returned. Fixtures are
// never generated again: a later release adds a folder of its own, with
// testdata/generate.sh.
package compatibility
