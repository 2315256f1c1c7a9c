package proxy

import (
	"io"

	"github.com/stint-dev/stint/internal/egress/policy"
)

// Veil takes one secret's value out of what comes back, as a Handler does. It
// is immutable.
type Veil struct{ c *concealer }

// NewVeil makes the veil of a secret that has a Value and a Placeholder.
func NewVeil(s policy.Secret) *Veil { return &Veil{newConcealer([]policy.Secret{s})} }

// Text is s with the placeholder where the value stands.
func (v *Veil) Text(s string) string { return v.c.text(s) }

// Writer passes on to w what is written to it, at once but for an end that may
// be the beginning of the value; Close passes that on and leaves w open.
func (v *Veil) Writer(w io.Writer) io.WriteCloser { return &concealed{c: v.c, w: w} }
