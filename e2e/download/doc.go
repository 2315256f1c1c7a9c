// Package download tests that all clients receive the same files of a version.
//
// The tests start the built program as an operator does, push folders of files with
// unusual names, types, and modes, and follow download links as users do: with curl,
// which is interrupted and resumes, with the archive readers of other programs, and
// with a browser.
package download
