package localdir

import (
	"encoding/hex"
	"strings"
)

const (
	partPrefix = ".stint-"
	partSuffix = ".part"
	partSum    = 12 // bytes of a checksum
)

// PartName returns the name under which a pull writes a file with the given
// checksum until it is complete.
func PartName(sum [32]byte) string {
	return partPrefix + hex.EncodeToString(sum[:partSum]) + partSuffix
}

// IsPart reports whether name, without its folder, is a result of PartName. Such a
// file was left by an interrupted pull.
func IsPart(name string) bool {
	name, begins := strings.CutPrefix(name, partPrefix)
	name, ends := strings.CutSuffix(name, partSuffix)
	sum, err := hex.DecodeString(name)
	return begins && ends && err == nil && len(sum) == partSum && strings.ToLower(name) == name
}
