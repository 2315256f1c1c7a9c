package files

// tarShape is a plain tar: the same headers as in the compressed archive, the
// contents expanded.
type tarShape struct{}

func (tarShape) body(to []stretch, e *entry) []stretch {
	to = append(to, madeStretch(appendHeader(nil, e)))
	for i := range e.chunks {
		c := &e.chunks[i]
		to = append(to, stretch{chunk: c, plain: true, length: int64(c.raw)})
	}
	if n := padding(e.size); n > 0 {
		to = append(to, madeStretch(zeroes[:n]))
	}
	return to
}

func (tarShape) line(to []byte, _ *entry, _ int64) []byte { return to }

func (tarShape) end(_, _, _ int64) []byte { return zeroes[:tarEnd] }

var zeroes [tarEnd]byte
