//go:build linux && (amd64 || arm64)

package diskusage

import "time"

// What only these tests reach from outside.
var (
	MaxDepth     = maxDepth
	OverAnyLimit = overAnyLimit
	MaxPause     = maxPause
)

// Folders looks once.
func ScanDirs(dirs []string, proc string) int64 {
	m := Scanner{Proc: proc}
	return m.Scan(ScanOptions{Dirs: dirs})
}

// Looks is how many looks it takes, at the folders or, where there is a proc, at
// the processes.
func EntryCount(l ScanOptions, proc string) int {
	m := Scanner{Proc: proc}
	return defaultMaxEntries - m.walk(l).remaining
}

// Clocked is a meter with clocks of the test's own.
func WithClock(now func() time.Time, spent func() time.Duration) *Scanner {
	return &Scanner{clock: now, cpuTime: spent}
}

// Bounded looks once, at so many entries at most.
func ScanBounded(most int, l ScanOptions, proc string) int64 {
	m := Scanner{Proc: proc, maxEntries: most}
	return m.Scan(l)
}
