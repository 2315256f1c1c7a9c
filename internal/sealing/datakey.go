package sealing

import (
	"errors"
	"fmt"
)

// ErrNoDataKey reports that an owner has no data key with the requested number.
var ErrNoDataKey = errors.New("sealing: there is no data key of that number")

// DataKey is a key for the encryption of objects. The keys of an owner (an organisation
// or the installation) are numbered from 1; the key with the greatest number is
// current.
type DataKey struct {
	Number uint32
	Secret [KeySize]byte
}

// Format implements fmt.Formatter. For every verb it writes the number and not the
// secret.
func (k DataKey) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "sealing.DataKey(%d)", k.Number) }
