package exchange

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/commit"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/files/scan"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// CommitEntries stores the tree that r contains in the encoding of package treewire.
// The chunks of the tree must be stored already. If chunks are missing, the error is
// a *stint.Error with the code chunks_missing. parent is the digest of a version with
// pages and chunks that can be reused ("" = none).
//
// The description of each file is verified: the sizes of chunks against the
// cutting rules and the stored chunks, and the hash of a file with several chunks
// by reading them, unless the parent has the same file. So the digest is as
// reliable as the digest of an uploaded archive. Links must stay in the tree.
func (x *Exchanger) CommitEntries(ctx context.Context, org, parent string, r io.Reader) (manifest.Ref, error) {
	ref, err := x.commitEntries(ctx, org, parent, r)
	if errors.Is(err, commit.ErrPackDeleted) {
		err = chunksMissing("some")
	}
	return ref, err
}

// chunksMissing returns the error for a tree with chunks that are not stored. how is
// the number of these chunks, or "some".
func chunksMissing(how string) error {
	return &stint.Error{
		Kind: stint.KindConflict, Code: stint.CodeChunksMissing,
		Message: "The server lacks " + how + " of the chunks that the tree names. Ask which, send them and push the tree again.",
	}
}

func (x *Exchanger) commitEntries(ctx context.Context, org, parent string, r io.Reader) (ref manifest.Ref, err error) {
	c, err := x.commits.Begin(ctx, org, false)
	if err != nil {
		return manifest.Ref{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.Writer.Stage()
	a := &entriesCommit{
		x: x, commit: c, EntrySet: scan.NewEntrySet(&x.limits, x.commits.Packs.TempDir),
		summed: map[string]bool{},
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.inherit(ctx, parent); err != nil {
		return manifest.Ref{}, err
	}
	if err := x.scanPacks(ctx, org, false); err != nil {
		return manifest.Ref{}, err
	}
	if err := a.read(ctx, r); err != nil {
		return manifest.Ref{}, err
	}
	if err := a.write(ctx); err != nil {
		return manifest.Ref{}, err
	}
	return c.Finish(ctx)
}

// entriesCommit commits a tree of stored chunks.
type entriesCommit struct {
	*scan.EntrySet
	x      *Exchanger
	commit *commit.Commit
	parent *manifest.Finder // finds entries of the parent; nil without a parent

	entries int64           // entries read so far
	missing int64           // chunks that are not stored
	scanned bool            // all packs were listed because a chunk was missing
	summed  map[string]bool // paths of files with hashes that must be verified
}

func (a *entriesCommit) inherit(ctx context.Context, parent string) error {
	if parent == "" {
		return nil
	}
	m, err := a.x.commits.Manifests.Open(ctx, a.commit.Org, parent)
	if err != nil {
		return fmt.Errorf("reading the parent version: %w", err)
	}
	a.commit.Manifest.Base = m
	a.parent = &manifest.Finder{Pages: manifest.PageReader{M: m}}
	return nil
}

// parentEntry returns the parent's entry at path, or nil.
func (a *entriesCommit) parentEntry(ctx context.Context, path string) (*format.Entry, error) {
	if a.parent == nil {
		return nil, nil
	}
	e, err := a.parent.Find(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("reading the parent version: %w", err)
	}
	return e, nil
}

// read reads the entries of a tree, checks them, and spools them with the places of
// their chunks.
func (a *entriesCommit) read(ctx context.Context, r io.Reader) error {
	tree, err := treewire.NewTreeReader(r)
	if err != nil {
		return err
	}
	defer tree.Close()
	for ctx.Err() == nil {
		e, err := tree.Next()
		if errors.Is(err, io.EOF) {
			return a.complete(ctx)
		} else if err != nil {
			return malformed("The tree's entries", err)
		}
		if err = a.check(e); err == nil {
			err = a.resolve(ctx, e)
		}
		if err == nil {
			err = a.Add(e)
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
	return a.CheckDotted(ctx)
}

// checkPacks verifies that the packs that were found only in the index exist. If
// packs are missing, it drops them from the index and returns commit.ErrPackDeleted.
func (a *entriesCommit) checkPacks(ctx context.Context) error {
	packs := slices.Concat(slices.Collect(maps.Values(a.commit.Dedup.FromIndex))...)
	gone, err := a.x.commits.Packs.Missing(ctx, a.commit.Org, packs)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := a.x.commits.Index.Drop(a.commit.Org, gone); err != nil {
		return fmt.Errorf("dropping deleted packs from the index: %w", err)
	}
	return commit.ErrPackDeleted
}

// check checks an entry without access to the store, and adjusts its path, mode,
// and time.
func (a *entriesCommit) check(e *format.Entry) (err error) {
	if a.entries++; a.entries > a.Limits.Entries {
		return limits.TooLarge("The tree has more than %d entries.", a.Limits.Entries)
	}
	if e.Path, err = a.Limits.CleanPath(e.Path); err != nil {
		return err
	}
	e.Sec = min(max(e.Sec, format.FirstSecond), format.LastSecond)
	switch e.Kind {
	case format.Symlink:
		e.Mode = 0o777
	case format.File:
		if !wellCut(e) {
			return limits.Invalid("The file '%s' is not cut into chunks as it must be.", limits.Printable(e.Path))
		}
	}
	return a.CheckSize(e, e.Size)
}

// wellCut reports whether the sizes of a file's chunks can result from the cutting
// rules. Without this check, a client could store trees with very many chunks.
func wellCut(e *format.Entry) bool {
	if e.Size <= format.WholeFile {
		return len(e.Chunks) <= 1
	}
	for _, c := range e.Chunks[:len(e.Chunks)-1] {
		if c.Size <= format.MinChunk {
			return false
		}
	}
	return true // one chunk is possible, too: a file may have no cut point
}

// resolve finds the places of a file's chunks.
func (a *entriesCommit) resolve(ctx context.Context, e *format.Entry) error {
	if len(e.Chunks) == 0 {
		return nil
	}
	old, err := a.parentEntry(ctx, e.Path)
	if err != nil {
		return err
	}
	if old != nil && old.SHA256 == e.SHA256 && slices.EqualFunc(old.Chunks, e.Chunks, sameChunk) {
		e.Chunks = old.Chunks
		return nil
	}
	if len(e.Chunks) > 1 {
		a.summed[e.Path] = true
	}
	for i := range e.Chunks {
		if err := a.place(ctx, &e.Chunks[i]); err != nil {
			return err
		}
	}
	return nil
}

func sameChunk(a, b format.Chunk) bool { return a.Hash == b.Hash && a.Size == b.Size }

func (a *entriesCommit) place(ctx context.Context, c *format.Chunk) error {
	at, ok, err := a.commit.Dedup.Find(nil, c.Hash, c.Size)
	if err == nil && !ok && !a.scanned {
		a.scanned = true
		if err = a.x.scanPacks(ctx, a.commit.Org, true); err == nil {
			at, ok, err = a.commit.Dedup.Find(nil, c.Hash, c.Size)
		}
	}
	if err == nil && !ok {
		a.missing++
	}
	c.Place = at
	return err
}

// write adds the spooled entries to the manifest and verifies the hashes of the
// files in summed.
func (a *entriesCommit) write(ctx context.Context) error {
	chunks := &pack.ChunkReader{Reader: pack.Reader{Store: a.x.commits.Packs, Org: a.commit.Org}}
	err := a.WriteTo(ctx, a.commit.Manifest.Add, func(e *format.Entry) error {
		if a.summed[e.Path] {
			if err := checkSum(ctx, chunks, e); err != nil {
				return err
			}
		}
		return a.commit.CopyMarkedChunks(ctx, e)
	})
	return errors.Join(err, chunks.Close())
}

// checkSum reads the chunks of a file and verifies its SHA-256.
func checkSum(ctx context.Context, chunks *pack.ChunkReader, e *format.Entry) error {
	sum := sha256.New()
	for i := range e.Chunks {
		content, err := chunks.Chunk(ctx, &e.Chunks[i])
		if err != nil {
			return err
		}
		sum.Write(content)
	}
	if format.Hash(sum.Sum(nil)) != e.SHA256 {
		return limits.Invalid("The file '%s' does not have the SHA-256 that the tree says.", limits.Printable(e.Path))
	}
	return nil
}
