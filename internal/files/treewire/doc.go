// Package treewire encodes the trees and chunks that clients exchange with the
// server.
//
// There are four encodings. A tree is the compressed list of a version's entries
// in path order. Frames are chunks, each preceded by its lengths and hash. Hashes
// are concatenated SHA-256 sums. A selection identifies chunks of a version.
//
// Readers accept untrusted bytes and refuse values that are out of range. Readers
// of trees and frames hold at most one entry or chunk in memory, and return an
// error if the input ends before its end mark. Integers of fixed size are
// little-endian; all others are varints of encoding/binary.
package treewire

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/files/format"
)

// The media types of the encodings.
const (
	TreeType      = "application/vnd.stint.tree+zstd"
	FramesType    = "application/vnd.stint.chunks"
	HashesType    = "application/octet-stream"
	SelectionType = "application/octet-stream"
)

// Hash is the SHA-256 of a chunk's content, by which the chunk is named.
type Hash = format.Hash

// MaxChunk is the maximum content of a chunk, in bytes.
const MaxChunk = format.MaxChunk

// ErrMalformed is wrapped by errors about invalid input.
var ErrMalformed = errors.New("malformed transfer")

func malformed(text string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(text, args...))
}
