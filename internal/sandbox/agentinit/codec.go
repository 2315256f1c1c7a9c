//go:build linux && (amd64 || arm64)

package agentinit

import (
	"encoding/binary"
	"errors"
)

// Coder writes fields one after the other, or reads them back: one function for
// each type does both, so the two cannot disagree. Writing changes no field, as
// several may write what they share. Init would spend more time
// on warming up a codec by reflection than on building the root.
type Coder struct {
	data    []byte
	Reading bool // fields are read back
	err     error
}

var errMalformed = errors.New("malformed message")

// Value is a type that can be carried.
type Value interface{ Fields(c *Coder) }

// Encode writes a value as Decode reads it.
func Encode(v Value) []byte {
	c := &Coder{}
	v.Fields(c)
	return c.data
}

// Decode reads a value; it refuses what is cut short or goes on.
func Decode(data []byte, v Value) error {
	c := &Coder{data: data, Reading: true}
	v.Fields(c)
	if c.err == nil && len(c.data) > 0 {
		c.err = errMalformed
	}
	return c.err
}

// Number carries a signed integer.
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

// Integer carries an int.
func (c *Coder) Int(p *int) {
	n := int64(*p)
	c.Int64(&n)
	if c.Reading {
		*p = int(n)
	}
}

// Flag carries a bool.
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

// Bytes carries any bytes.
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

// Text carries a string.
func (c *Coder) String(p *string) {
	b := []byte(*p)
	c.Bytes(&b)
	if c.Reading && c.err == nil {
		*p = string(b)
	}
}

// Texts carries a list of strings.
func (c *Coder) Strings(p *[]string) { List(c, p, (*Coder).String) }

// List carries any number of items. Each takes a byte or more, which bounds
// what a malformed message can make us allocate.
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
