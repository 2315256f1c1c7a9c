//go:build linux

package capture

// ReadAnswers is what only these tests reach from outside.
var ReadAnswers = parseAcks
