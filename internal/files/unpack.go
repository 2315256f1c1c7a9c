package files

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"
)

// CommitArchive stores the tree in an archive from anybody. parent is the digest
// of the version that it grew from ("" = none): what that holds is not stored
// again. A wrong archive is refused with a *stint.Error, and until it was read
// to its end and found good, nothing goes to the store.
//
// Folders that no entry names get mode 0755 and the Unix epoch. Hard links
// become files of the same content. Of several entries of one path the last
// one counts; they must be of one kind. Links must stay in the tree. Bits
// beyond 0777 and owners are dropped.
func (b *scanner) CommitArchive(ctx context.Context, org, parent string, f Format, r io.Reader) (Ref, error) {
	ref, err := b.fromArchive(ctx, org, parent, f, r)
	return ref, tryAgain(err)
}

func (b *scanner) fromArchive(ctx context.Context, org, parent string, f Format, r io.Reader) (ref Ref, err error) {
	c, err := b.commits.beginAfter(ctx, org, parent, false)
	if err != nil {
		return Ref{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.writer.stage()
	u := &unpacker{entrySet: newEntrySet(&b.limits, b.commits.packs.tempDir)}
	defer func() { err = errors.Join(err, u.close()) }()
	if err := u.unpack(ctx, c, f, r); err != nil {
		return Ref{}, err
	}
	if err := c.dedup.chunks.close(); err != nil { // sorting wants the memory
		return Ref{}, err
	}
	if err := u.writeTo(ctx, c.manifest.add, nil); err != nil {
		return Ref{}, err
	}
	return c.finish(ctx)
}

// unpacker reads the entries of a tar.
type unpacker struct {
	*entrySet
	archive *archiveReader
	headers int64
}

func (u *unpacker) unpack(ctx context.Context, c *commit, f Format, r io.Reader) error {
	in := newChunker(ctx, c.dedup, c.writer, u.add)
	s, err := newArchiveReader(in.line.ctx, f, r, u.limits)
	if err != nil {
		return in.abort(err)
	}
	defer s.stop()
	u.archive, u.grow = s, s.grow
	if err := u.read(in); err != nil {
		return s.inputError(in.abort(err))
	}
	if err := in.finish(); err != nil {
		return err
	}
	return u.checkDotted(ctx)
}

// read hands the entries to in, and everything up to the archive's end to the
// checks of its format.
func (u *unpacker) read(in *chunker) error {
	t := tar.NewReader(u.archive)
	end := int64(0) // of what was understood so far
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return &inputFault{err}
		}
		if u.headers++; u.headers > u.limits.Entries {
			return tooLarge("The archive has more than %d entries.", u.limits.Entries)
		}
		if err := u.entry(in, h, t); err != nil {
			return err
		}
		end = u.archive.out
	}
	// archive/tar takes a missing end for an end. A tar that is cut between
	// two headers lacks the two empty blocks.
	if !u.archive.atEnd(end) {
		return &inputFault{io.ErrUnexpectedEOF}
	}
	return u.archive.drain()
}

func (u *unpacker) entry(in *chunker, h *tar.Header, t *tar.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.limits.cleanPath(h.Name)
	if err != nil {
		return err
	}
	e := &entry{path: name, kind: file}
	if err := u.describe(e, h); err != nil {
		return err
	}
	if e.path == "" {
		if e.kind == folder {
			return nil // the tree's own
		}
		return invalid("The entry '%s' names the tree itself, but is no folder.", printable(h.Name))
	}
	if e.kind != file {
		return in.addEntry(e)
	}
	if err := u.checkSize(e, h.Size); err != nil {
		return err
	}
	return in.content(e, &entryReader{t: t, u: u})
}

// describe fills in everything but the content.
func (u *unpacker) describe(e *entry, h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives hold TypeRegA
		if strings.HasSuffix(h.Name, "/") && h.Size == 0 {
			e.kind = folder // as old archives write them
		}
	case tar.TypeDir:
		e.kind = folder
	case tar.TypeSymlink:
		e.kind, e.target = symlink, h.Linkname
	case tar.TypeLink:
		target, err := u.limits.cleanPath(h.Linkname)
		if err != nil || target == "" {
			return invalid("The link '%s' leaves the tree: its target is '%s'.", printable(h.Name), printable(h.Linkname))
		}
		e.kind, e.target = hardlink, target
	case tar.TypeChar, tar.TypeBlock:
		return invalid("The entry '%s' is a device.", printable(h.Name))
	case tar.TypeFifo:
		return invalid("The entry '%s' is a named pipe.", printable(h.Name))
	default:
		return invalid("The entry '%s' is of the unknown type '%s'.", printable(h.Name), printable(string(rune(h.Typeflag))))
	}
	if h.Mode < 0 || h.Size < 0 {
		return invalid("The entry '%s' has a negative mode or size.", printable(h.Name))
	}
	if s := h.ModTime.Unix(); s < firstSecond || s > lastSecond {
		return invalid("The entry '%s' has a modification time outside the years 1 to 9999.", printable(h.Name))
	}
	e.setTime(h.ModTime)
	if e.mode = uint16(h.Mode & 0o777); e.kind == symlink {
		e.mode = 0o777
	}
	return nil
}

// entryReader reads the content of an entry.
type entryReader struct {
	t *tar.Reader
	u *unpacker
}

func (r *entryReader) Read(b []byte) (int, error) {
	before := r.u.archive.out
	n, err := r.t.Read(b)
	// A sparse file's holes grow the archive, too.
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
