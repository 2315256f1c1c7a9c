package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// CommitEntries stores a tree in the form of package wire, whose chunks the
// organisation's storage has: a chunk that it lacks is a *stint.Error with the
// code chunks_missing. parent is the digest of a version whose pages and
// chunks can be taken over ("" = none).
//
// What the tree says of its files is checked: cut as the library cuts, lengths
// as they are stored, and the sum of a file of several chunks by reading them,
// unless the parent has the very file. So the tree's digest is as true as that
// of an archive. Links must stay in the tree.
func (x *exchanger) CommitEntries(ctx context.Context, org, parent string, r io.Reader) (Ref, error) {
	ref, err := x.fromEntries(ctx, org, parent, r)
	if errors.Is(err, errPackGone) {
		err = chunksMissing("some")
	}
	return ref, err
}

// chunksMissing says that a tree names chunks which are not stored.
func chunksMissing(how string) error {
	return &stint.Error{
		Kind: stint.KindConflict, Code: stint.CodeChunksMissing,
		Message: "The server lacks " + how + " of the chunks that the tree names. Ask which, send them and push the tree again.",
	}
}

func (x *exchanger) fromEntries(ctx context.Context, org, parent string, r io.Reader) (ref Ref, err error) {
	c, err := x.commits.begin(ctx, org, false)
	if err != nil {
		return Ref{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.writer.stage()
	a := &entriesCommit{
		x: x, commit: c, entrySet: newEntrySet(&x.limits, x.commits.packs.tempDir),
		summed: map[string]bool{},
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.inherit(ctx, parent); err != nil {
		return Ref{}, err
	}
	if err := x.scanPacks(ctx, org, false); err != nil {
		return Ref{}, err
	}
	if err := a.read(ctx, r); err != nil {
		return Ref{}, err
	}
	if err := a.write(ctx); err != nil {
		return Ref{}, err
	}
	return c.finish(ctx)
}

// composing makes a tree of chunks that are stored.
type entriesCommit struct {
	*entrySet
	x      *exchanger
	commit *commit
	next   func() (*entry, error, bool) // the parent's entries
	stop   func()
	at     *entry // where the walk through them stands; nil at its end

	entries int64
	missing int64
	looked  bool            // at all packs, as a chunk was missing
	summed  map[string]bool // paths of files whose sums need a check
}

func (a *entriesCommit) close() error {
	if a.stop != nil {
		a.stop()
	}
	return a.entrySet.close()
}

func (a *entriesCommit) inherit(ctx context.Context, parent string) error {
	if parent == "" {
		return nil
	}
	m, err := a.x.commits.manifests.open(ctx, a.commit.org, parent)
	if err != nil {
		return fmt.Errorf("reading the parent version: %w", err)
	}
	a.commit.manifest.base = m
	a.next, a.stop = iter.Pull2(m.entries(ctx))
	return a.advance()
}

// advance moves on in the parent.
func (a *entriesCommit) advance() error {
	e, err, ok := a.next()
	if err != nil {
		return fmt.Errorf("reading the parent version: %w", err)
	}
	if a.at = e; !ok {
		a.at = nil
	}
	return nil
}

// former gives the parent's entry at path. Paths ascend from call to call.
func (a *entriesCommit) parentEntry(path string) (*entry, error) {
	for a.at != nil && comparePaths(a.at.path, path) < 0 {
		if err := a.advance(); err != nil {
			return nil, err
		}
	}
	if a.at != nil && a.at.path == path {
		return a.at, nil
	}
	return nil, nil
}

// read spools the entries, with the places of their chunks.
func (a *entriesCommit) read(ctx context.Context, r io.Reader) error {
	tree, err := treewire.NewTreeReader(r)
	if err != nil {
		return err
	}
	defer tree.Close()
	for ctx.Err() == nil {
		w, err := tree.Next()
		if errors.Is(err, io.EOF) {
			return a.complete(ctx)
		} else if err != nil {
			return malformed("The tree's entries", err)
		}
		e, err := a.entry(w)
		if err == nil {
			err = a.resolve(ctx, e)
		}
		if err == nil {
			err = a.add(e)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (a *entriesCommit) complete(ctx context.Context) error {
	if err := a.checkPacks(ctx); err != nil {
		return err
	}
	if a.missing > 0 {
		return chunksMissing(strconv.FormatInt(a.missing, 10))
	}
	return a.checkDotted(ctx)
}

// checkPacks looks for the packs that nothing but the index says exist, before
// they are read.
func (a *entriesCommit) checkPacks(ctx context.Context) error {
	packs := slices.Concat(slices.Collect(maps.Values(a.commit.dedup.borrowed))...)
	gone, err := a.x.commits.packs.missing(ctx, a.commit.org, packs)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := a.x.commits.index.Drop(a.commit.org, gone); err != nil {
		return fmt.Errorf("forgetting packs that are gone: %w", err)
	}
	return errPackGone
}

// entry checks what can be checked without the store.
func (a *entriesCommit) entry(w *treewire.Entry) (*entry, error) {
	if a.entries++; a.entries > a.limits.Entries {
		return nil, tooLarge("The tree has more than %d entries.", a.limits.Entries)
	}
	path, err := a.limits.cleanPath(w.Path)
	if err != nil {
		return nil, err
	}
	e := &entry{path: path, mode: w.Mode, sec: w.Sec, nsec: w.Nsec, target: w.Target}
	e.sec = min(max(e.sec, firstSecond), lastSecond)
	switch w.Kind {
	case treewire.Folder:
		e.kind = folder
	case treewire.Link:
		e.kind, e.mode = symlink, 0o777
	default:
		e.kind, e.size, e.sum = file, w.Size, w.Sum
		for _, c := range w.Chunks {
			e.chunks = append(e.chunks, chunk{hash: c.Hash, raw: c.Raw})
		}
		if !wellCut(e) {
			return nil, invalid("The file '%s' is not cut into chunks as it must be.", printable(path))
		}
	}
	return e, a.checkSize(e, e.size)
}

// wellCut holds the lengths of chunks to what cutting gives, which keeps
// foreign trees from having far more chunks than others of their size.
func wellCut(e *entry) bool {
	if e.size <= wholeFile {
		return len(e.chunks) <= 1
	}
	for _, c := range e.chunks[:len(e.chunks)-1] {
		if c.raw <= minChunk {
			return false
		}
	}
	return true // also with one chunk: one of up to maxChunk may have no place for a cut
}

// resolve finds the places of a file's chunks.
func (a *entriesCommit) resolve(ctx context.Context, e *entry) error {
	if len(e.chunks) == 0 {
		return nil
	}
	old, err := a.parentEntry(e.path)
	if err != nil {
		return err
	}
	if old != nil && old.sum == e.sum && slices.EqualFunc(old.chunks, e.chunks, sameChunk) {
		e.chunks = old.chunks
		return nil
	}
	if len(e.chunks) > 1 {
		a.summed[e.path] = true
	}
	for i := range e.chunks {
		if err := a.place(ctx, &e.chunks[i]); err != nil {
			return err
		}
	}
	return nil
}

func sameChunk(a, b chunk) bool { return a.hash == b.hash && a.raw == b.raw }

func (a *entriesCommit) place(ctx context.Context, c *chunk) error {
	at, ok, err := a.commit.dedup.find(nil, c.hash, c.raw)
	if err == nil && !ok && !a.looked {
		a.looked = true
		if err = a.x.scanPacks(ctx, a.commit.org, true); err == nil {
			at, ok, err = a.commit.dedup.find(nil, c.hash, c.raw)
		}
	}
	if err == nil && !ok {
		a.missing++
	}
	c.at = at
	return err
}

// write hands the entries to the manifest, and checks sums on the way.
func (a *entriesCommit) write(ctx context.Context) error {
	check := sumCheck{fetch: packReader{store: a.x.commits.packs, org: a.commit.org}}
	err := a.writeChecked(ctx, &check)
	return errors.Join(err, check.fetch.close())
}

func (a *entriesCommit) writeChecked(ctx context.Context, check *sumCheck) error {
	return a.writeTo(ctx, a.commit.manifest.add, func(e *entry) error {
		if a.summed[e.path] {
			if err := check.file(ctx, e); err != nil {
				return err
			}
		}
		return a.commit.copyEndangeredChunks(ctx, e)
	})
}

// sumCheck reads files back.
type sumCheck struct {
	fetch         packReader
	expander      expander
	stored, plain []byte
}

func (s *sumCheck) file(ctx context.Context, e *entry) error {
	sum := sha256.New()
	for i := range e.chunks {
		c := &e.chunks[i]
		s.stored, s.plain = resized(s.stored, int(c.at.stored)), resized(s.plain, int(c.raw))
		if err := s.fetch.read(ctx, c.at.pack, int64(c.at.offset), s.stored); err != nil {
			return err
		}
		if err := s.expander.chunk(s.plain, s.stored, c); err != nil {
			return err
		}
		sum.Write(s.plain)
	}
	if hash(sum.Sum(nil)) != e.sum {
		return invalid("The file '%s' does not have the SHA-256 that the tree says.", printable(e.path))
	}
	return nil
}
