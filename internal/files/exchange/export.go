package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// WriteTree writes the tree to w in the encoding of package treewire. After an error,
// w has received only a part of the tree.
func (x *Exchanger) WriteTree(ctx context.Context, org, digest string, w io.Writer) error {
	m, err := x.commits.Manifests.Open(ctx, org, digest)
	if err != nil {
		return err
	}
	tree, err := treewire.NewTreeWriter(w)
	if err != nil {
		return err
	}
	for e, err := range m.Entries(ctx) {
		if err == nil {
			err = tree.Add(e)
		}
		if err != nil {
			return err
		}
	}
	return tree.Close()
}

// WriteChunks writes the selected chunks of a tree to w as frames of package
// treewire, without compressing them again. If the tree lacks a selected chunk, the
// error is a *stint.Error. After an error, w has received only a part of the chunks.
func (x *Exchanger) WriteChunks(ctx context.Context, org, digest string, s treewire.Selection, w io.Writer) error {
	m, err := x.commits.Manifests.Open(ctx, org, digest)
	if err != nil {
		return err
	}
	g := &chunkExport{chunks: pack.ChunkReader{Reader: pack.Reader{Store: x.commits.Packs, Org: org}}, w: w, ranges: s.Ranges}
	return errors.Join(g.all(ctx, m, s.After), g.chunks.Close())
}

// chunkExport writes selected chunks.
type chunkExport struct {
	chunks  pack.ChunkReader
	w       io.Writer
	ranges  []treewire.Range // ranges that are not written yet
	number  int64            // number of the tree's next chunk
	started bool
	frame   []byte
}

func (g *chunkExport) all(ctx context.Context, m *manifest.Manifest, after string) error {
	for e, err := range m.From(ctx, after) {
		if err != nil {
			return err
		}
		if err := g.file(ctx, e); err != nil {
			return err
		}
		if len(g.ranges) == 0 {
			_, err := g.w.Write(treewire.AppendFramesEnd(nil))
			return err
		}
	}
	return stint.InvalidParam("body", "The selection goes beyond the last chunk of the version.")
}

// file writes the selected chunks of a file.
func (g *chunkExport) file(ctx context.Context, e *format.Entry) error {
	n := int64(len(e.Chunks))
	for len(g.ranges) > 0 && g.ranges[0].First < g.number+n {
		r := &g.ranges[0]
		if err := g.chunk(ctx, &e.Chunks[r.First-g.number]); err != nil {
			return fmt.Errorf("reading %q: %w", e.Path, err)
		}
		r.First++
		if r.Count--; r.Count == 0 {
			g.ranges = g.ranges[1:]
		}
	}
	g.number += n
	return nil
}

func (g *chunkExport) chunk(ctx context.Context, c *format.Chunk) error {
	stored, err := g.chunks.Segment(ctx, c)
	if err != nil {
		return err
	}
	g.frame = g.frame[:0]
	if !g.started {
		g.started = true
		g.frame = treewire.AppendFramesHead(g.frame)
	}
	g.frame = treewire.AppendFrame(g.frame, &treewire.Frame{Hash: c.Hash, Raw: c.Size, Segment: stored})
	_, err = g.w.Write(g.frame)
	return err
}
