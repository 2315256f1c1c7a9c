//go:build linux && (amd64 || arm64)

package agentinit

import (
	"encoding/binary"
	"errors"
	"reflect"
)

var errMalformed = errors.New("malformed message")

// Encode returns a binary encoding of the struct that v points to. Decode is its
// inverse. All fields of the struct must be exported. Their types may be based on bool,
// int, int64, uint8, uint16, uint32, string, slices, and structs; Encode panics for any
// other type. The
// packages encoding/gob and encoding/json are not used: initializing the first takes
// longer than building the sandbox's rootfs, and the second changes strings that
// are not UTF-8.
func Encode(v any) []byte { return appendValue(nil, reflect.ValueOf(v).Elem()) }

func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.String:
		return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(b, v.Bytes()...)
		}
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
		return b
	case reflect.Struct:
		for _, field := range v.Fields() {
			b = appendValue(b, field)
		}
		return b
	}
	panic("agentinit: cannot encode " + v.Type().String())
}

// Decode decodes data into the struct that v points to. It returns an error if
// data is malformed, is truncated, or has trailing bytes. Byte slices in the struct
// share the memory of data.
func Decode(data []byte, v any) error {
	d := decoder{data}
	if !d.value(reflect.ValueOf(v).Elem()) || len(d.data) > 0 {
		return errMalformed
	}
	return nil
}

type decoder struct{ data []byte }

// value decodes a value and reports whether the data is valid.
func (d *decoder) value(v reflect.Value) (ok bool) {
	switch v.Kind() {
	case reflect.Bool:
		n, ok := d.number(1)
		v.SetBool(n == 1)
		return ok
	case reflect.Int, reflect.Int64:
		n, size := binary.Varint(d.data)
		d.data = d.data[max(size, 0):]
		v.SetInt(n)
		return size > 0
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		n, ok := d.number(1<<v.Type().Bits() - 1)
		v.SetUint(n)
		return ok
	case reflect.String:
		b, ok := d.bytes()
		v.SetString(string(b))
		return ok
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b, ok := d.bytes()
			v.SetBytes(b)
			return ok
		}
		return d.list(v)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if !d.value(field) {
				return false
			}
		}
		return true
	}
	panic("agentinit: cannot decode " + v.Type().String())
}

// list decodes a slice. Each element is encoded in at least one byte. The allocation
// for a malformed message is therefore bounded by the size of the message.
func (d *decoder) list(v reflect.Value) bool {
	n, ok := d.number(uint64(len(d.data)))
	if !ok {
		return false
	}
	v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
	for i := range v.Len() {
		if !d.value(v.Index(i)) {
			return false
		}
	}
	return true
}

// bytes decodes a length and as many bytes.
func (d *decoder) bytes() ([]byte, bool) {
	n, ok := d.number(uint64(len(d.data)))
	if !ok || n > uint64(len(d.data)) {
		return nil, false
	}
	b := d.data[:n:n]
	d.data = d.data[n:]
	return b, true
}

// number decodes an unsigned integer. It returns false if the data is malformed or the
// integer exceeds limit.
func (d *decoder) number(limit uint64) (uint64, bool) {
	n, size := binary.Uvarint(d.data)
	if size <= 0 || n > limit {
		return 0, false
	}
	d.data = d.data[size:]
	return n, true
}
