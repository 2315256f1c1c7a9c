// Package compatibility tests that a server opens the data of earlier releases.
//
// Each folder in testdata is named after the commit of the program that wrote it. It
// contains two installations and a recording of the responses of their API. One
// installation uses SQLite and a folder; the other uses PostgreSQL, a bucket, and
// encryption at rest. Existing folders are never generated again: a later release adds
// its own folder with testdata/generate.sh.
package compatibility
