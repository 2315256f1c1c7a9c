package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"runtime"
	"sync"
)

// intake turns the contents of files into chunks in packs: one goroutine
// reads and cuts, a few hash and compress, one fills packs and hands complete
// entries on, in the order in which they came.
type chunker struct {
	line    *orderedPool[*piece]
	dedup   *dedup
	packs   *packer
	take    func(*entry) error
	buffers chan *buffer
	former  *parentChunks // the chunks that the next content may have had; set by the reading goroutine
}

// buffer holds a chunk and its segment.
type buffer struct {
	content []byte // one byte longer than a chunk may be, to see whether more comes
	segment bytes.Buffer
}

// widen makes room for a chunk of a large file.
func (b *buffer) widen() {
	if len(b.content) <= maxChunk {
		b.content = append(b.content, make([]byte, maxChunk+1-len(b.content))...)
	}
}

// piece is a chunk on its way; the last one of an entry, or one without a
// chunk, completes it.
type piece struct {
	entry  *entry
	last   bool
	buffer *buffer // nil where there is no chunk
	former *parentChunks
	chunk  chunk
	stored bool // the store has it already
}

// newIntake starts the goroutines; finish or abort ends them. take is called
// by one goroutine.
func newChunker(ctx context.Context, k *dedup, p *packer, take func(*entry) error) *chunker {
	workers := min(runtime.GOMAXPROCS(0), 4)
	in := &chunker{dedup: k, packs: p, take: take, buffers: make(chan *buffer, 2*workers+2)}
	for range cap(in.buffers) {
		in.buffers <- nil // made when first used
	}
	in.line = newOrderedPool(ctx, workers, cap(in.buffers), in.worker, in.collect)
	return in
}

func (in *chunker) finish() error {
	defer in.recycle()
	return in.line.finish()
}

// end finishes, or aborts where reading failed with err.
func (in *chunker) end(err error) error {
	if err != nil {
		return in.abort(err)
	}
	return in.finish()
}

func (in *chunker) abort(err error) error {
	defer in.recycle()
	return in.line.abort(err)
}

// idle holds what the next intake need not make anew.
var idle = struct{ buffers, compressors sync.Pool }{
	buffers:     sync.Pool{New: func() any { return &buffer{content: make([]byte, wholeFile+1)} }},
	compressors: sync.Pool{New: func() any { return newCompressor() }},
}

func (in *chunker) recycle() {
	for len(in.buffers) > 0 {
		if b := <-in.buffers; b != nil {
			idle.buffers.Put(b)
		}
	}
}

// bare hands on an entry without content.
func (in *chunker) addEntry(e *entry) error {
	return in.line.send(&piece{entry: e, last: true}, false)
}

// content reads r to its end as the content of e, sets its size and sum and
// hands it on.
func (in *chunker) content(e *entry, r io.Reader) error {
	b, err := in.buffer()
	if err != nil {
		return err
	}
	n, ended, err := fill(r, b.content[:wholeFile+1])
	switch {
	case err != nil:
		in.buffers <- b
		return err
	case !ended:
		return in.large(e, r, b, n)
	case n == 0:
		e.sum = emptyHash
		in.buffers <- b
		return in.addEntry(e)
	}
	e.size = int64(n)
	return in.send(e, b, n, true)
}

// large cuts a content whose first n bytes are in b.
func (in *chunker) large(e *entry, r io.Reader, b *buffer, n int) error {
	sum := sha256.New()
	for {
		b.widen()
		more, ended, err := fill(r, b.content[n:])
		if err != nil {
			in.buffers <- b
			return err
		}
		n += more
		length := cut(b.content[:n])
		sum.Write(b.content[:length])
		e.size += int64(length)
		if length == n && ended {
			sum.Sum(e.sum[:0])
			return in.send(e, b, length, true)
		}
		next, err := in.buffer()
		if err != nil {
			in.buffers <- b
			return err
		}
		next.widen()
		n = copy(next.content, b.content[length:n])
		if err := in.send(e, b, length, false); err != nil {
			in.buffers <- next
			return err
		}
		b = next
	}
}

func (in *chunker) buffer() (*buffer, error) {
	select {
	case b := <-in.buffers:
		if b == nil {
			b = idle.buffers.Get().(*buffer)
		}
		return b, nil
	case <-in.line.ctx.Done():
		return nil, context.Cause(in.line.ctx)
	}
}

func (in *chunker) send(e *entry, b *buffer, n int, last bool) error {
	return in.line.send(&piece{entry: e, last: last, buffer: b, former: in.former, chunk: chunk{raw: uint32(n)}}, true)
}

// worker names a chunk and, when the store lacks it, makes its segment.
func (in *chunker) worker() func(*piece) error {
	return func(p *piece) error {
		content := p.buffer.content[:p.chunk.raw]
		p.chunk.hash = sha256.Sum256(content)
		var err error
		if p.chunk.at, p.stored, err = in.dedup.find(p.former, p.chunk.hash, p.chunk.raw); err != nil || p.stored {
			return err
		}
		p.chunk.at.crc = crc32.ChecksumIEEE(content)
		c := idle.compressors.Get().(*compressor)
		defer idle.compressors.Put(c)
		return c.segment(&p.buffer.segment, content)
	}
}

// collect stores a new chunk and hands on a complete entry.
func (in *chunker) collect(p *piece) error {
	if p.buffer != nil {
		if err := in.store(p); err != nil {
			return err
		}
		in.buffers <- p.buffer
		p.entry.chunks = append(p.entry.chunks, p.chunk)
		if p.last && len(p.entry.chunks) == 1 {
			p.entry.sum = p.chunk.hash
		}
	}
	if !p.last {
		return nil
	}
	return in.take(p.entry)
}

func (in *chunker) store(p *piece) error {
	if p.stored {
		return nil
	}
	at, stored, err := in.dedup.chunks.find(p.chunk.hash) // an equal chunk may have come just before
	if err != nil {
		return err
	}
	if !stored {
		s := segment{kind: chunkSegment, hash: p.chunk.hash, raw: p.chunk.raw, crc: p.chunk.at.crc}
		if at, err = in.packs.add(s, p.buffer.segment.Bytes()); err != nil {
			return err
		}
		if err := in.dedup.chunks.add(p.chunk.hash, at); err != nil {
			return err
		}
	}
	p.chunk.at = at
	return nil
}
