package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// WriteTree writes the tree to w in the form of package wire. After an error
// w has a part of it.
func (x *exchanger) WriteTree(ctx context.Context, org, digest string, w io.Writer) error {
	m, err := x.commits.manifests.open(ctx, org, digest)
	if err != nil {
		return err
	}
	tree, err := treewire.NewTreeWriter(w)
	if err != nil {
		return err
	}
	for e, err := range m.entries(ctx) {
		if err == nil {
			err = tree.Add(e.wire())
		}
		if err != nil {
			return err
		}
	}
	return tree.Close()
}

// wire is the entry as it travels.
func (e *entry) wire() *treewire.Entry {
	w := &treewire.Entry{Path: e.path, Mode: e.mode, Sec: e.sec, Nsec: e.nsec, Size: e.size, Sum: e.sum, Target: e.target}
	switch e.kind {
	case folder:
		w.Kind = treewire.Folder
	case symlink:
		w.Kind = treewire.Link
	default:
		w.Kind = treewire.File
		w.Chunks = make([]treewire.Chunk, len(e.chunks))
		for i, c := range e.chunks {
			w.Chunks[i] = treewire.Chunk{Hash: c.hash, Raw: c.raw}
		}
	}
	return w
}

// WriteChunks writes the selected chunks of a tree to w as they are stored, in
// the form of wire.Frame. A selection of chunks that the tree lacks is a
// *stint.Error. After an error w has a part of them.
func (x *exchanger) WriteChunks(ctx context.Context, org, digest string, s treewire.Selection, w io.Writer) error {
	m, err := x.commits.manifests.open(ctx, org, digest)
	if err != nil {
		return err
	}
	g := &chunkExport{fetch: packReader{store: x.commits.packs, org: org}, w: w, ranges: s.Ranges}
	return errors.Join(g.all(ctx, m, s.After), g.fetch.close())
}

// give writes chunks.
type chunkExport struct {
	fetch   packReader
	w       io.Writer
	ranges  []treewire.Range // that are not written yet
	number  int64            // of the next chunk of the tree
	started bool
	frame   []byte
	stored  []byte
}

func (g *chunkExport) all(ctx context.Context, m *manifest, after string) error {
	for e, err := range m.from(ctx, after) {
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

// file writes what is selected of a file.
func (g *chunkExport) file(ctx context.Context, e *entry) error {
	n := int64(len(e.chunks))
	for len(g.ranges) > 0 && g.ranges[0].First < g.number+n {
		r := &g.ranges[0]
		if err := g.chunk(ctx, &e.chunks[r.First-g.number]); err != nil {
			return fmt.Errorf("reading %q: %w", e.path, err)
		}
		r.First++
		if r.Count--; r.Count == 0 {
			g.ranges = g.ranges[1:]
		}
	}
	g.number += n
	return nil
}

func (g *chunkExport) chunk(ctx context.Context, c *chunk) error {
	g.stored = resized(g.stored, int(c.at.stored))
	if err := g.fetch.read(ctx, c.at.pack, int64(c.at.offset), g.stored); err != nil {
		return err
	}
	g.frame = g.frame[:0]
	if !g.started {
		g.started = true
		g.frame = treewire.AppendFramesHead(g.frame)
	}
	g.frame = treewire.AppendFrame(g.frame, &treewire.Frame{Hash: c.hash, Raw: c.raw, Segment: g.stored})
	_, err := g.w.Write(g.frame)
	return err
}
