//go:build linux && (amd64 || arm64)

package agentinit

import (
	"encoding/binary"
	"errors"
)

// Coder encodes or decodes the fields of a message. One Fields method per type
// does both, so the two directions cannot disagree. Encoding does not change
// the fields, because goroutines may share them. A reflective codec is not
// used: its initialization would take longer than building the sandbox's root.
type Coder struct {
	data    []byte
	Reading bool // decode; otherwise encode
	err     error
}

var errMalformed = errors.New("malformed message")

// Value is a type that a Coder can encode and decode.
type Value interface{ Fields(c *Coder) }

// Encode returns the encoded value, which Decode reads.
func Encode(v Value) []byte {
	c := &Coder{}
	v.Fields(c)
	return c.data
}

// Decode decodes data into v. It returns an error if data is truncated or has
// trailing bytes.
func Decode(data []byte, v Value) error {
	c := &Coder{data: data, Reading: true}
	v.Fields(c)
	if c.err == nil && len(c.data) > 0 {
		c.err = errMalformed
	}
	return c.err
}

// Int64 encodes or decodes a signed integer.
func (c *Coder) Int64(p *int64) {
	if !c.Reading {
		c.data = binary.AppendVarint(c.data, *p)
		return
	}
	n, size := binary.Varint(c.data)
	if size <= 0 {
		c.fail()
		return
	}
	*p, c.data = n, c.data[size:]
}

// Int encodes or decodes an int.
func (c *Coder) Int(p *int) {
	n := int64(*p)
	c.Int64(&n)
	if c.Reading {
		*p = int(n)
	}
}

// Bool encodes or decodes a bool.
func (c *Coder) Bool(p *bool) {
	var n int64
	if *p {
		n = 1
	}
	c.Int64(&n)
	if c.Reading {
		*p = n != 0
	}
}

// Bytes encodes or decodes a byte slice.
func (c *Coder) Bytes(p *[]byte) {
	n := int64(len(*p))
	c.Int64(&n)
	if !c.Reading {
		c.data = append(c.data, *p...)
		return
	}
	if c.err != nil || n < 0 || n > int64(len(c.data)) {
		c.fail()
		return
	}
	*p, c.data = c.data[:n:n], c.data[n:]
}

// String encodes or decodes a string.
func (c *Coder) String(p *string) {
	b := []byte(*p)
	c.Bytes(&b)
	if c.Reading && c.err == nil {
		*p = string(b)
	}
}

// Strings encodes or decodes a list of strings.
func (c *Coder) Strings(p *[]string) { List(c, p, (*Coder).String) }

// List encodes or decodes a list. Each item takes at least one byte, which
// bounds the allocation for a malformed message.
func List[T any](c *Coder, p *[]T, item func(*Coder, *T)) {
	n := int64(len(*p))
	c.Int64(&n)
	if c.Reading {
		if c.err != nil || n < 0 || n > int64(len(c.data)) {
			c.fail()
			return
		}
		*p = make([]T, n)
	}
	for i := range *p {
		item(c, &(*p)[i])
	}
}

func (c *Coder) fail() {
	c.err = errMalformed
	c.data = nil
}
