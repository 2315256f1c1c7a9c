package files

// tarShape is a plain tar: the same headers as in the compressed archive, the
// contents expanded.
type tarShape struct{}

func (tarShape) body(to []archivePart, e *entry) []archivePart {
	to = append(to, literalPart(appendHeader(nil, e)))
	for i := range e.chunks {
		c := &e.chunks[i]
		to = append(to, archivePart{chunk: c, plain: true, length: int64(c.raw)})
	}
	if n := padding(e.size); n > 0 {
		to = append(to, literalPart(zeroes[:n]))
	}
	return to
}

func (tarShape) line(to []byte, _ *entry, _ int64) []byte { return to }

func (tarShape) end(_, _, _ int64) []byte { return zeroes[:tarEnd] }

var zeroes [tarEnd]byte
