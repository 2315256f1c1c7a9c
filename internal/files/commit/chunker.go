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

// Chunker stores the contents of files as chunks in packs. One goroutine reads and
// cuts, a few hash and compress, and one fills packs and passes on complete
// entries in their order.
type Chunker struct {
	Line         *ordered.Pool[*piece]
	dedup        *dedup
	packs        *pack.Writer
	take         func(*format.Entry) error
	ParentChunks *parentChunks // chunks that the next content may contain; set by the reading goroutine
}

// buffer holds a chunk and its segment.
type buffer struct {
	content []byte // one byte longer than a chunk, to detect more content
	segment bytes.Buffer
}

// widen makes room for a chunk of a large file.
func (b *buffer) widen() {
	if len(b.content) <= format.MaxChunk {
		b.content = append(b.content, make([]byte, format.MaxChunk+1-len(b.content))...)
	}
}

// piece is a chunk in progress. The last piece of an entry completes it.
type piece struct {
	entry  *format.Entry
	last   bool
	buffer *buffer // nil without a chunk
	former *parentChunks
	chunk  format.Chunk
	stored bool // the store has it already
}

// NewChunker starts the goroutines, which Finish or Abort end. take is called by
// one goroutine.
func NewChunker(ctx context.Context, k *dedup, p *pack.Writer, take func(*format.Entry) error) *Chunker {
	workers := min(runtime.GOMAXPROCS(0), 4)
	in := &Chunker{dedup: k, packs: p, take: take}
	in.Line = ordered.NewPool(ctx, workers, 2*workers+2, in.worker, in.collect)
	return in
}

// Finish waits until all entries were passed on.
func (in *Chunker) Finish() error { return in.Line.Finish() }

// End finishes, or aborts if reading failed with err.
func (in *Chunker) End(err error) error {
	if err != nil {
		return in.Abort(err)
	}
	return in.Finish()
}

// Abort drops pending work. It returns the error that ended the goroutines if
// that came first, else err.
func (in *Chunker) Abort(err error) error { return in.Line.Abort(err) }

// idle holds buffers and compressors for reuse.
var idle = struct{ buffers, compressors sync.Pool }{
	buffers:     sync.Pool{New: func() any { return &buffer{content: make([]byte, format.WholeFile+1)} }},
	compressors: sync.Pool{New: func() any { return format.NewCompressor() }},
}

// AddEntry passes on an entry without content.
func (in *Chunker) AddEntry(e *format.Entry) error {
	return in.Line.Send(&piece{entry: e, last: true}, false)
}

// Content reads r to its end as the content of e, sets its size and hash, and
// passes it on.
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

// large cuts content that begins with the n bytes in b.
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

// worker hashes a chunk and compresses it if the store lacks it.
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

// collect stores a new chunk and passes on a complete entry.
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
