//go:build linux && (amd64 || arm64)

package diskmeter

// What only these tests reach from outside.
var (
	Folders = folders
	TooDeep = tooDeep
	Endless = endless
)
