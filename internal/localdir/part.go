package localdir

import (
	"encoding/hex"
	"strings"
)

const (
	partPrefix = ".stint-"
	partSuffix = ".part"
	partSum    = 12 // number of bytes of the checksum in a name
)

// PartName returns the temporary name under which a pull writes a file. sum is the
// SHA-256 of the complete file.
func PartName(sum [32]byte) string {
	return partPrefix + hex.EncodeToString(sum[:partSum]) + partSuffix
}

// IsPart reports whether name, which must not contain a folder, is a possible result of
// PartName. An interrupted pull leaves files with such names.
func IsPart(name string) bool {
	name, begins := strings.CutPrefix(name, partPrefix)
	name, ends := strings.CutSuffix(name, partSuffix)
	sum, err := hex.DecodeString(name)
	return begins && ends && err == nil && len(sum) == partSum && strings.ToLower(name) == name
}
