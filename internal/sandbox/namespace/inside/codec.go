//go:build linux && (amd64 || arm64)

package inside

import (
	"encoding/binary"
	"errors"
)

// coder writes fields one after the other, or reads them back: one function for
// each type does both, so the two cannot disagree. Writing changes no field, as
// several may write what they share. Init would spend more time
// on warming up a codec by reflection than on building the root.
type coder struct {
	data    []byte
	reading bool
	err     error
}

var errMalformed = errors.New("malformed message")

// Coded is a type that can be carried.
type Coded interface{ code(c *coder) }

// Encode writes a value as Decode reads it.
func Encode(v Coded) []byte {
	c := &coder{}
	v.code(c)
	return c.data
}

// Decode reads a value; it refuses what is cut short or goes on.
func Decode(data []byte, v Coded) error {
	c := &coder{data: data, reading: true}
	v.code(c)
	if c.err == nil && len(c.data) > 0 {
		c.err = errMalformed
	}
	return c.err
}

func (c *coder) number(p *int64) {
	if !c.reading {
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

func (c *coder) integer(p *int) {
	n := int64(*p)
	c.number(&n)
	if c.reading {
		*p = int(n)
	}
}

func (c *coder) flag(p *bool) {
	var n int64
	if *p {
		n = 1
	}
	c.number(&n)
	if c.reading {
		*p = n != 0
	}
}

func (c *coder) bytes(p *[]byte) {
	n := int64(len(*p))
	c.number(&n)
	if !c.reading {
		c.data = append(c.data, *p...)
		return
	}
	if c.err != nil || n < 0 || n > int64(len(c.data)) {
		c.fail()
		return
	}
	*p, c.data = c.data[:n:n], c.data[n:]
}

func (c *coder) text(p *string) {
	b := []byte(*p)
	c.bytes(&b)
	if c.reading && c.err == nil {
		*p = string(b)
	}
}

func (c *coder) texts(p *[]string) { list(c, p, (*coder).text) }

// list carries any number of items. Each takes a byte or more, which bounds
// what a malformed message can make us allocate.
func list[T any](c *coder, p *[]T, item func(*coder, *T)) {
	n := int64(len(*p))
	c.number(&n)
	if c.reading {
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

func (c *coder) fail() {
	c.err = errMalformed
	c.data = nil
}
