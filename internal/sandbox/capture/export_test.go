//go:build linux

package capture

// ParseAcks exports parseAcks for tests.
var ParseAcks = parseAcks
