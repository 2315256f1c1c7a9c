package gitpatch

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
)

// binary writes the contents as a binary patch of git. The second content allows git to
// apply the patch in reverse.
func (p *patch) binary(old, new []byte) {
	p.line("GIT binary patch")
	p.literal(new)
	p.literal(old)
}

// literal writes a whole content: its length, and the lines of the compressed data. Each
// line has up to 52 bytes of data in base 85 behind a letter for their number.
func (p *patch) literal(content []byte) {
	p.line("literal %d", len(content))
	const width = 52
	for data := deflate(content); len(data) > 0; data = data[min(width, len(data)):] {
		part := data[:min(width, len(data))]
		length := byte('A' + len(part) - 1)
		if len(part) > 26 {
			length = byte('a' + len(part) - 27)
		}
		p.b.WriteByte(length)
		p.base85(part)
		p.b.WriteByte('\n')
	}
	p.b.WriteByte('\n')
}

func deflate(content []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(content) // writing to a buffer does not fail
	_ = z.Close()
	return b.Bytes()
}

// digits are the digits of git's base 85.
const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85 writes five digits for each four bytes. It adds zero bytes to the last four.
func (p *patch) base85(data []byte) {
	for ; len(data) > 0; data = data[min(4, len(data)):] {
		var word [4]byte
		copy(word[:], data)
		n := binary.BigEndian.Uint32(word[:])
		var out [5]byte
		for i := range out {
			out[len(out)-1-i] = digits[n%85]
			n /= 85
		}
		p.b.Write(out[:])
	}
}
