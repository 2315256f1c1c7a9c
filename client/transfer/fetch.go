package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

const (
	// maxFetches is the maximum number of concurrent requests for chunks. Each
	// requests about batchTarget bytes in at most batchChunks chunks.
	maxFetches  = 4
	batchTarget = 4 << 20
	batchChunks = 1024
)

// neededChunk is a chunk to fetch.
type neededChunk struct {
	format.Chunk
	item  int // index of the item that contains it
	index int // index of the chunk within the item
}

// batch is a group of chunks that are fetched by one request.
type batch struct {
	chunks   []neededChunk
	contents [][]byte // of the chunks that were fetched so far
	wire     int64    // bytes sent and received
	err      error
	ready    chan struct{} // closed when contents is complete or err is set
}

// batches returns the chunks that no local file contains, in the order of use.
func (p *pull) batches() []*batch {
	var all []*batch
	var b *batch
	size := uint32(0)
	seen := map[treewire.Hash]bool{}
	for at, i := range p.items {
		for n, c := range i.Chunks {
			if _, ok := p.local[c.Hash]; i.unchanged || ok || seen[c.Hash] {
				continue
			}
			seen[c.Hash] = true
			if b == nil || size+c.Size > batchTarget || len(b.chunks) == batchChunks {
				b, size = &batch{ready: make(chan struct{})}, 0
				all = append(all, b)
			}
			b.chunks = append(b.chunks, neededChunk{c, at, n})
			size += c.Size
		}
	}
	return all
}

// fetch fetches the contents of a batch. After a broken connection, it requests the
// remaining chunks again.
func (p *pull) fetch(ctx context.Context, b *batch) error {
	var codec files.Codec
	return p.retry(ctx, func() (bool, error) {
		before := len(b.contents)
		if before == len(b.chunks) {
			return false, nil
		}
		err := p.fetchRest(ctx, b, &codec)
		return len(b.contents) > before, err
	})
}

func (p *pull) fetchRest(ctx context.Context, b *batch, codec *files.Codec) error {
	request := p.selection(b.chunks[len(b.contents):]).Append(nil)
	in, err := p.remote.OpenChunks(ctx, request)
	if err != nil {
		return &permanentError{err}
	}
	counted := &counter{r: in}
	err = b.read(treewire.NewFrameReader(counted), codec)
	_, _ = io.CopyN(io.Discard, counted, 1) // read to EOF, so that the connection can be reused
	b.wire += int64(len(request)) + counted.n
	return errors.Join(err, in.Close())
}

// selection returns the selection of chunks. It numbers chunks from the first item
// among them, so that the server need not read the entries before it.
func (p *pull) selection(chunks []neededChunk) *treewire.Selection {
	s := &treewire.Selection{}
	first := chunks[0].item
	if first > 0 {
		s.After = p.items[first-1].Path
	}
	for _, w := range chunks {
		s.Add(p.items[w.item].number - p.items[first].number + int64(w.index))
	}
	return s
}

func (b *batch) read(frames *treewire.FrameReader, codec *files.Codec) error {
	for _, w := range b.chunks[len(b.contents):] {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return &permanentError{errors.New("the server sent fewer chunks than were requested")}
		} else if err != nil {
			return err
		}
		if f.Hash != w.Hash || f.Raw != w.Size {
			return &permanentError{errors.New("the server sent a chunk that was not requested")}
		}
		chunk := make([]byte, w.Size)
		if err := codec.Chunk(chunk, f.Segment, w.Hash); err != nil {
			return &permanentError{fmt.Errorf("verify a received chunk: %w", err)}
		}
		b.contents = append(b.contents, chunk)
	}
	_, _ = frames.Next() // read the end mark; an error is harmless, because all chunks are verified
	return nil
}
