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

// PartName is the name under which a pull writes a file of the given checksum
// until it is whole.
func PartName(sum [32]byte) string {
	return partPrefix + hex.EncodeToString(sum[:partSum]) + partSuffix
}

// IsPart reports whether name, without its folder, is one that PartName gives.
// What has it is the remains of a pull that was interrupted.
func IsPart(name string) bool {
	name, begins := strings.CutPrefix(name, partPrefix)
	name, ends := strings.CutSuffix(name, partSuffix)
	sum, err := hex.DecodeString(name)
	return begins && ends && err == nil && len(sum) == partSum && strings.ToLower(name) == name
}
