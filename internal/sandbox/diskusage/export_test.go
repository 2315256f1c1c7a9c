//go:build linux && (amd64 || arm64)

package diskusage

import "time"

// Constants for tests.
var (
	MaxDepth     = maxDepth
	OverAnyLimit = overAnyLimit
	MaxPause     = maxPause
)

// ScanDirs returns the number of bytes that a new scanner counts in dirs and, if proc is
// not empty, in deleted files that processes of the proc file system proc use.
func ScanDirs(dirs []string, proc string) int64 {
	m := Scanner{Proc: proc}
	return m.Scan(ScanOptions{Dirs: dirs})
}

// EntryCount returns the number of entries that one scan reads: entries of folders and,
// if proc is not empty, of processes in the proc file system proc.
func EntryCount(l ScanOptions, proc string) int {
	m := Scanner{Proc: proc}
	return defaultMaxEntries - m.walk(l).remaining
}

// WithClock returns a scanner that gets the time from now and its CPU time from spent.
func WithClock(now func() time.Time, spent func() time.Duration) *Scanner {
	return &Scanner{clock: now, cpuTime: spent}
}

// ScanBounded returns the number of bytes that a new scanner counts if it may read at
// most the given number of entries.
func ScanBounded(most int, l ScanOptions, proc string) int64 {
	m := Scanner{Proc: proc, maxEntries: most}
	return m.Scan(l)
}
