//go:build linux && (amd64 || arm64)

package diskusage

import "time"

// What only these tests reach from outside.
var (
	TooDeep = tooDeep
	Endless = endless
	Longest = longest
)

// Folders looks once.
func Folders(dirs []string, proc string) int64 {
	m := Meter{Proc: proc}
	return m.Read(Look{Dirs: dirs})
}

// Looks is how many looks it takes, at the folders or, where there is a proc, at
// the processes.
func Looks(l Look, proc string) int {
	m := Meter{Proc: proc}
	return tooMany - m.walk(l).left
}

// Clocked is a meter with clocks of the test's own.
func Clocked(now func() time.Time, spent func() time.Duration) *Meter {
	return &Meter{now: now, spent: spent}
}

// Bounded looks once, at so many entries at most.
func Bounded(most int, l Look, proc string) int64 {
	m := Meter{Proc: proc, most: most}
	return m.Read(l)
}
