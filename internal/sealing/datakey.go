package sealing

import (
	"errors"
	"fmt"
)

// ErrNoDataKey says that an owner has no data key of a number.
var ErrNoDataKey = errors.New("sealing: there is no data key of that number")

// DataKey is a key that data is encrypted under. An owner's keys are numbered
// from 1; the one with the greatest number is current.
type DataKey struct {
	Number uint32
	Secret [KeySize]byte
}

// Format tells the number, whatever the verb.
func (k DataKey) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "sealing.DataKey(%d)", k.Number) }
