package commit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/ordered"
	"github.com/stint-dev/stint/internal/files/pack"
)

// Chunker stores the contents of files as chunks in packs. The caller's goroutine
// reads and cuts, several goroutines hash and compress, and one goroutine fills
// packs and passes complete entries to take, in the order in which they were added.
type Chunker struct {
	Line         *ordered.Pool[*piece]
	dedup        *dedup
	packs        *pack.Writer
	take         func(*format.Entry) error
	ParentChunks *parentChunks // chunks that the next content may contain; set by the caller of Content
}

// buffer holds a chunk and its segment.
type buffer struct {
	content []byte // one byte longer than a chunk can be, to detect that more content follows
	segment bytes.Buffer
}

// widen makes room for a chunk of a large file.
func (b *buffer) widen() {
	if len(b.content) <= format.MaxChunk {
		b.content = append(b.content, make([]byte, format.MaxChunk+1-len(b.content))...)
	}
}

// piece is a chunk of an entry that is being stored, or an entry without content.
type piece struct {
	entry  *format.Entry
	last   bool          // the last piece of the entry
	buffer *buffer       // nil for an entry without content
	former *parentChunks // chunks of the parent that may be equal
	chunk  format.Chunk
	stored bool // the chunk is stored already
}

// NewChunker returns a Chunker and starts its goroutines. Finish or Abort must be
// called to end them. take is called by one of them.
func NewChunker(ctx context.Context, k *dedup, p *pack.Writer, take func(*format.Entry) error) *Chunker {
	workers := min(runtime.GOMAXPROCS(0), 4)
	in := &Chunker{dedup: k, packs: p, take: take}
	in.Line = ordered.NewPool(ctx, workers, 2*workers+2, in.worker, in.collect)
	return in
}

// Finish waits until all entries were passed to take, and ends the goroutines. It
// returns the error that ended them early, if any.
func (in *Chunker) Finish() error { return in.Line.Finish() }

// End calls Finish if err is nil, otherwise Abort.
func (in *Chunker) End(err error) error {
	if err != nil {
		return in.Abort(err)
	}
	return in.Finish()
}

// Abort drops pending work and ends the goroutines. If an error has ended them
// before, Abort returns that error, otherwise err.
func (in *Chunker) Abort(err error) error { return in.Line.Abort(err) }

// idle holds buffers and compressors for reuse.
var idle = struct{ buffers, compressors sync.Pool }{
	buffers:     sync.Pool{New: func() any { return &buffer{content: make([]byte, format.WholeFile+1)} }},
	compressors: sync.Pool{New: func() any { return format.NewCompressor() }},
}

// AddEntry adds an entry without content.
func (in *Chunker) AddEntry(e *format.Entry) error {
	return in.Line.Send(&piece{entry: e, last: true}, false)
}

// Content reads r to its end as the content of e, sets the size and hash of e, and
// adds e.
func (in *Chunker) Content(e *format.Entry, r io.Reader) error {
	b := idle.buffers.Get().(*buffer)
	n, ended, err := format.Fill(r, b.content[:format.WholeFile+1])
	switch {
	case err != nil:
		return err
	case !ended:
		return in.large(e, r, b, n)
	case n == 0:
		e.SHA256 = format.EmptyHash
		idle.buffers.Put(b)
		return in.AddEntry(e)
	}
	e.Size = int64(n)
	return in.send(e, b, n, true)
}

// large cuts content that is larger than WholeFile. Its first n bytes are in b.
func (in *Chunker) large(e *format.Entry, r io.Reader, b *buffer, n int) error {
	sum := sha256.New()
	for {
		b.widen()
		more, ended, err := format.Fill(r, b.content[n:])
		if err != nil {
			return err
		}
		n += more
		length := format.Cut(b.content[:n])
		sum.Write(b.content[:length])
		e.Size += int64(length)
		if length == n && ended {
			sum.Sum(e.SHA256[:0])
			return in.send(e, b, length, true)
		}
		next := idle.buffers.Get().(*buffer)
		next.widen()
		n = copy(next.content, b.content[length:n])
		if err := in.send(e, b, length, false); err != nil {
			return err
		}
		b = next
	}
}

func (in *Chunker) send(e *format.Entry, b *buffer, n int, last bool) error {
	return in.Line.Send(&piece{entry: e, last: last, buffer: b, former: in.ParentChunks, chunk: format.Chunk{Size: uint32(n)}}, true)
}

// worker returns a function that hashes a chunk, and compresses it if it is not
// stored yet.
func (in *Chunker) worker() func(*piece) error {
	return func(p *piece) error {
		content := p.buffer.content[:p.chunk.Size]
		p.chunk.Hash = sha256.Sum256(content)
		var err error
		if p.chunk.Place, p.stored, err = in.dedup.Find(p.former, p.chunk.Hash, p.chunk.Size); err != nil || p.stored {
			return err
		}
		p.chunk.Place.CRC = crc32.ChecksumIEEE(content)
		c := idle.compressors.Get().(*format.Compressor)
		defer idle.compressors.Put(c)
		return c.Compress(&p.buffer.segment, content)
	}
}

// collect stores the chunk of p if it is new. If p is the last piece of its entry,
// collect passes the entry to take.
func (in *Chunker) collect(p *piece) error {
	if p.buffer != nil {
		if err := in.store(p); err != nil {
			return err
		}
		idle.buffers.Put(p.buffer)
		p.entry.Chunks = append(p.entry.Chunks, p.chunk)
		if p.last && len(p.entry.Chunks) == 1 {
			p.entry.SHA256 = p.chunk.Hash
		}
	}
	if !p.last {
		return nil
	}
	return in.take(p.entry)
}

func (in *Chunker) store(p *piece) error {
	if p.stored {
		return nil
	}
	at, stored, err := in.dedup.Chunks.find(p.chunk.Hash) // an equal chunk may have been stored just before
	if err != nil {
		return err
	}
	if !stored {
		s := format.Segment{Kind: format.ChunkSegment, Hash: p.chunk.Hash, Size: p.chunk.Size, CRC: p.chunk.Place.CRC}
		if at, err = in.packs.Add(s, p.buffer.segment.Bytes()); err != nil {
			return err
		}
		if err := in.dedup.Chunks.add(p.chunk.Hash, at); err != nil {
			return err
		}
	}
	p.chunk.Place = at
	return nil
}
