package scan

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/stint-dev/stint/internal/files/commit"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// CommitArchive stores the tree in the untrusted archive r of the format f. parent is
// the digest of the previous version ("" = none); its content is not stored again. If
// the archive is invalid, the error is a *stint.Error. Nothing is written to the store
// before the archive was read to its end and found valid.
//
// Folders without an entry get mode 0755 and the Unix epoch as time. Hard links
// become copies of the earlier files or symbolic links to which they refer. Of
// several entries with one path, only the last is stored; they must have the same
// kind. Links must stay in the tree. Mode bits beyond 0777 and owners are dropped.
func (b *Scanner) CommitArchive(ctx context.Context, org, parent string, f format.Format, r io.Reader) (manifest.Ref, error) {
	ref, err := b.commitArchive(ctx, org, parent, f, r)
	return ref, commit.TryAgain(err)
}

func (b *Scanner) commitArchive(ctx context.Context, org, parent string, f format.Format, r io.Reader) (ref manifest.Ref, err error) {
	c, err := b.Commits.BeginAfter(ctx, org, parent, false)
	if err != nil {
		return manifest.Ref{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.Writer.Stage()
	u := &archiveScan{EntrySet: NewEntrySet(&b.Limits, b.Commits.Packs.TempDir)}
	defer func() { err = errors.Join(err, u.Close()) }()
	if err := u.scan(ctx, c, f, r); err != nil {
		return manifest.Ref{}, err
	}
	if err := c.Dedup.Chunks.Close(); err != nil { // frees memory for sorting
		return manifest.Ref{}, err
	}
	if err := u.WriteTo(ctx, c.Manifest.Add, nil); err != nil {
		return manifest.Ref{}, err
	}
	return c.Finish(ctx)
}

// archiveScan reads the entries of an archive.
type archiveScan struct {
	*EntrySet
	archive *archiveReader
	headers int64 // number of tar headers read so far
}

func (u *archiveScan) scan(ctx context.Context, c *commit.Commit, f format.Format, r io.Reader) error {
	in := commit.NewChunker(ctx, c.Dedup, c.Writer, u.Add)
	s, err := newArchiveReader(in.Line.Ctx, f, r, u.Limits)
	if err != nil {
		return in.Abort(err)
	}
	defer s.stop()
	u.archive, u.grow = s, s.grow
	if err := u.read(in); err != nil {
		return s.inputError(in.Abort(err))
	}
	if err := in.Finish(); err != nil {
		return err
	}
	return u.CheckDotted(ctx)
}

// read passes the entries of the archive to in and reads the archive to its end.
func (u *archiveScan) read(in *commit.Chunker) error {
	t := tar.NewReader(u.archive)
	end := int64(0) // bytes of the tar up to the end of the last entry
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return &inputFault{err}
		}
		if u.headers++; u.headers > u.Limits.Entries {
			return limits.TooLarge("The archive has more than %d entries.", u.Limits.Entries)
		}
		if err := u.entry(in, h, t); err != nil {
			return err
		}
		end = u.archive.out
	}
	// archive/tar accepts a tar without its end, the two empty blocks. They are
	// missing in a tar that is cut between two entries.
	if !u.archive.atEnd(end) {
		return &inputFault{io.ErrUnexpectedEOF}
	}
	return u.archive.drain()
}

func (u *archiveScan) entry(in *commit.Chunker, h *tar.Header, t *tar.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.Limits.CleanPath(h.Name)
	if err != nil {
		return err
	}
	e := &format.Entry{Path: name, Kind: format.File}
	if err := u.describe(e, h); err != nil {
		return err
	}
	if e.Path == "" {
		if e.Kind == format.Folder {
			return nil // the top of the tree
		}
		return limits.Invalid("The entry '%s' names the tree itself, but is not a folder.", limits.Printable(h.Name))
	}
	if e.Kind != format.File {
		return in.AddEntry(e)
	}
	if err := u.CheckSize(e, h.Size); err != nil {
		return err
	}
	return in.Content(e, &entryReader{t: t, u: u})
}

// describe sets the fields of e from a tar header, except for its path and content.
func (u *archiveScan) describe(e *format.Entry, h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives use TypeRegA
		if strings.HasSuffix(h.Name, "/") && h.Size == 0 {
			e.Kind = format.Folder // as in old archives
		}
	case tar.TypeDir:
		e.Kind = format.Folder
	case tar.TypeSymlink:
		e.Kind, e.Target = format.Symlink, h.Linkname
	case tar.TypeLink:
		target, err := u.Limits.CleanPath(h.Linkname)
		if err != nil || target == "" {
			return limits.Invalid("The link '%s' leaves the tree: its target is '%s'.", limits.Printable(h.Name), limits.Printable(h.Linkname))
		}
		e.Kind, e.Target = hardlink, target
	case tar.TypeChar, tar.TypeBlock:
		return limits.Invalid("The entry '%s' is a device.", limits.Printable(h.Name))
	case tar.TypeFifo:
		return limits.Invalid("The entry '%s' is a named pipe.", limits.Printable(h.Name))
	default:
		return limits.Invalid("The entry '%s' is of the unknown type '%s'.", limits.Printable(h.Name), limits.Printable(string(rune(h.Typeflag))))
	}
	if h.Mode < 0 || h.Size < 0 {
		return limits.Invalid("The entry '%s' has a negative mode or size.", limits.Printable(h.Name))
	}
	if s := h.ModTime.Unix(); s < format.FirstSecond || s > format.LastSecond {
		return limits.Invalid("The entry '%s' has a modification time outside the years 1 to 9999.", limits.Printable(h.Name))
	}
	e.SetTime(h.ModTime)
	if e.Mode = uint16(h.Mode & 0o777); e.Kind == format.Symlink {
		e.Mode = 0o777
	}
	return nil
}

// entryReader reads the content of an entry.
type entryReader struct {
	t *tar.Reader
	u *archiveScan
}

func (r *entryReader) Read(b []byte) (int, error) {
	before := r.u.archive.out
	n, err := r.t.Read(b)
	// The holes of a sparse file count as expansion, too.
	if hole := int64(n) - (r.u.archive.out - before); hole > 0 {
		if err := r.u.archive.grow(hole); err != nil {
			return n, err
		}
	}
	if err != nil && err != io.EOF {
		err = &inputFault{err}
	}
	return n, err
}
