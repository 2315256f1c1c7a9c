// Package download tests that all clients receive the same files of a version.
//
// The tests start the built program like an operator, push folders of odd files, and
// follow download links like users: with curl, which is interrupted and resumes, with
// the archive readers of other programs, and with a browser.
package download
