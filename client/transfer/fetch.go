package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
)

const (
	// fetchedAtOnce requests for chunks are on their way at once, each for
	// about batchTarget bytes or batchChunks chunks.
	fetchedAtOnce = 4
	batchTarget   = 4 << 20
	batchChunks   = 1024
)

// want is a chunk to fetch.
type want struct {
	treewire.Chunk
	item  int // the entry that it is of
	index int // in that entry
}

// batch is chunks that are fetched together, and their contents.
type batch struct {
	wants    []want
	contents [][]byte
	wire     int64
	err      error
	ready    chan struct{}
}

// wants lists what no local file has, in the order in which it is needed.
func (p *pull) wants() []*batch {
	var all []*batch
	var b *batch
	size := uint32(0)
	seen := map[treewire.Hash]bool{}
	for at, i := range p.items {
		for n, c := range i.Chunks {
			if _, ok := p.places[c.Hash]; i.keep || ok || seen[c.Hash] {
				continue
			}
			seen[c.Hash] = true
			if b == nil || size+c.Raw > batchTarget || len(b.wants) == batchChunks {
				b, size = &batch{ready: make(chan struct{})}, 0
				all = append(all, b)
			}
			b.wants = append(b.wants, want{c, at, n})
			size += c.Raw
		}
	}
	return all
}

// fetch gets the contents of a batch, going on where a connection breaks off.
func (p *pull) fetch(ctx context.Context, b *batch) error {
	var codec files.Codec
	return p.persist(ctx, func() (bool, error) {
		before := len(b.contents)
		if before == len(b.wants) {
			return false, nil
		}
		err := p.fetchSome(ctx, b, &codec)
		return len(b.contents) > before, err
	})
}

func (p *pull) fetchSome(ctx context.Context, b *batch, codec *files.Codec) error {
	question := p.selection(b.wants[len(b.contents):]).Append(nil)
	in, err := p.remote.OpenChunks(ctx, question)
	if err != nil {
		return &final{err}
	}
	counted := &counter{r: in}
	err = b.read(treewire.NewFrameReader(counted), codec)
	_, _ = io.CopyN(io.Discard, counted, 1) // a connection that was read to its end is used again
	b.wire += int64(len(question)) + counted.n
	return errors.Join(err, in.Close())
}

// selection counts from the first entry of which something is wanted.
func (p *pull) selection(wants []want) *treewire.Selection {
	s := &treewire.Selection{}
	first := wants[0].item
	if first > 0 {
		s.After = p.items[first-1].Path
	}
	for _, w := range wants {
		s.Add(p.items[w.item].number - p.items[first].number + int64(w.index))
	}
	return s
}

func (b *batch) read(frames *treewire.FrameReader, codec *files.Codec) error {
	for _, w := range b.wants[len(b.contents):] {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return &final{errors.New("the server sent fewer chunks than it was asked for")}
		} else if err != nil {
			return err
		}
		if f.Hash != w.Hash || f.Raw != w.Raw {
			return &final{errors.New("the server sent a chunk that it was not asked for")}
		}
		chunk := make([]byte, w.Raw)
		if err := codec.Chunk(chunk, f.Segment, w.Hash); err != nil {
			return &final{fmt.Errorf("check what arrived: %w", err)}
		}
		b.contents = append(b.contents, chunk)
	}
	_, _ = frames.Next() // the end mark: all that was asked for is here and checked
	return nil
}
