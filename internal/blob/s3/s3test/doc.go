// Package s3test runs an S3 server for tests.
//
// The server is versitygw in the version that tools/versitygw/go.mod pins. The
// Go command builds it into its cache at first use. The server stores objects in
// a temporary folder and listens on a Unix socket. Tests connect to a proxy on the
// loopback interface, which can inject faults. If the server does not start, the
// test fails.
//
// A test package calls Run in its TestMain and URL in its tests. Tests of whole
// processes start their own Server.
package s3test
