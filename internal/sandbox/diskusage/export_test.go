//go:build linux && (amd64 || arm64)

package diskusage

import "time"

// Constants for tests.
var (
	MaxDepth     = maxDepth
	OverAnyLimit = overAnyLimit
	MaxPause     = maxPause
)

// ScanDirs returns the result of one scan.
func ScanDirs(dirs []string, proc string) int64 {
	m := Scanner{Proc: proc}
	return m.Scan(ScanOptions{Dirs: dirs})
}

// EntryCount returns the number of entries of a scan: those of the folders or,
// with a proc, those of the processes.
func EntryCount(l ScanOptions, proc string) int {
	m := Scanner{Proc: proc}
	return defaultMaxEntries - m.walk(l).remaining
}

// WithClock returns a scanner with the given clocks.
func WithClock(now func() time.Time, spent func() time.Duration) *Scanner {
	return &Scanner{clock: now, cpuTime: spent}
}

// ScanBounded returns the result of one scan with a maximum number of entries.
func ScanBounded(most int, l ScanOptions, proc string) int64 {
	m := Scanner{Proc: proc, maxEntries: most}
	return m.Scan(l)
}
