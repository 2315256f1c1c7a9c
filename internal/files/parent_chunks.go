package files

// former are the chunks that a file had in the base. It is safe for
// concurrent use, also where it is nil.
type parentChunks struct {
	chunks []chunk
	byHash map[hash]int // nil where they are few
}

// fewChunks are searched one by one.
const fewChunks = 8

func newParentChunks(e *entry) *parentChunks {
	if e == nil || len(e.chunks) == 0 {
		return nil
	}
	f := &parentChunks{chunks: e.chunks}
	if len(f.chunks) > fewChunks {
		f.byHash = make(map[hash]int, len(f.chunks))
		for i := range f.chunks {
			f.byHash[f.chunks[i].hash] = i
		}
	}
	return f
}

func (f *parentChunks) find(h hash) (place, bool) {
	switch {
	case f == nil:
		return place{}, false
	case f.byHash != nil:
		i, ok := f.byHash[h]
		if !ok {
			return place{}, false
		}
		return f.chunks[i].at, true
	}
	for i := range f.chunks {
		if f.chunks[i].hash == h {
			return f.chunks[i].at, true
		}
	}
	return place{}, false
}
