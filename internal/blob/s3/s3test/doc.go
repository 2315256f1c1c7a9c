// Package s3test answers: which S3 server do the tests run against?
//
// A versitygw of the version that tools/versitygw/go.mod pins, built by the Go
// command into its own cache when it is first asked for, on a temporary folder.
// It listens on a Unix socket; what tests see is a proxy in front of it, on the
// loopback, that breaks things as they say. A test that cannot have its server
// fails.
//
// A test package calls Run from its TestMain and URL from its tests; tests of
// whole processes start a Server of their own.
package s3test
