// Package treewire answers: in what form do trees and chunks travel?
//
// There are four forms. A tree is the list of a version's entries in path
// order, compressed as a whole. Frames carry chunks, each with its name and
// its length before it. Names are SHA-256 sums laid end to end, and a
// selection says which of a version's chunks are meant.
//
// Readers take foreign bytes: they hold no more of them than one entry or one
// chunk, refuse what is out of bounds, and what ends before its end mark is an
// error. Integers are little-endian where they have a fixed size and
// variable-length (as in encoding/binary) elsewhere.
package treewire

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// The media types of the forms.
const (
	TreeType      = "application/vnd.stint.tree+zstd"
	FramesType    = "application/vnd.stint.chunks"
	HashesType    = "application/octet-stream"
	SelectionType = "application/octet-stream"
)

// Hash is the SHA-256 of a chunk's content: its name.
type Hash = [sha256.Size]byte

// MaxChunk is the most content of a chunk, in bytes.
const MaxChunk = 2 << 20

// ErrMalformed is wrapped by the errors about bytes that break a form.
var ErrMalformed = errors.New("malformed transfer")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
