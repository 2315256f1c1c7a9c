//go:build linux

package capture

// ReadAnswers exports parseAcks for tests.
var ReadAnswers = parseAcks
