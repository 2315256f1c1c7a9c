//go:build linux && (amd64 || arm64)

package namespace

// What only these tests reach from outside.
var (
	ParseStat = func(b []byte) error { _, err := parseStat(b); return err }
	DumpsNote = coreDumpNoteFor
)
