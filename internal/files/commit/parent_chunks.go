package commit

import "github.com/stint-dev/stint/internal/files/format"

// parentChunks holds the chunks of a file in the parent version. It is safe for
// concurrent use. A nil *parentChunks is empty.
type parentChunks struct {
	chunks []format.Chunk
	byHash map[format.Hash]int // nil if there are at most fewChunks
}

// fewChunks is the number of chunks up to which find compares them one by one.
const fewChunks = 8

// NewParentChunks returns the chunks of e, or nil if e is nil or has none.
func NewParentChunks(e *format.Entry) *parentChunks {
	if e == nil || len(e.Chunks) == 0 {
		return nil
	}
	f := &parentChunks{chunks: e.Chunks}
	if len(f.chunks) > fewChunks {
		f.byHash = make(map[format.Hash]int, len(f.chunks))
		for i := range f.chunks {
			f.byHash[f.chunks[i].Hash] = i
		}
	}
	return f
}

func (f *parentChunks) find(h format.Hash) (format.Place, bool) {
	switch {
	case f == nil:
		return format.Place{}, false
	case f.byHash != nil:
		i, ok := f.byHash[h]
		if !ok {
			return format.Place{}, false
		}
		return f.chunks[i].Place, true
	}
	for i := range f.chunks {
		if f.chunks[i].Hash == h {
			return f.chunks[i].Place, true
		}
	}
	return format.Place{}, false
}
