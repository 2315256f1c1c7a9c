//go:build linux && (amd64 || arm64)

package namespace

// Internals for tests.
var (
	ParseStat    = func(b []byte) error { _, err := parseStat(b); return err }
	CoreDumpNote = coreDumpNoteFor
	WriteRecord  = func(dir string, pid int) error { return (&Driver{dir: dir}).writeRecord("sb", pid) }
)
