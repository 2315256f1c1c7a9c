package files

import (
	"archive/tar"
	"context"
	"io"
	"strings"
	"sync/atomic"
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
func (l *Library) CommitArchive(ctx context.Context, org, parent string, f Format, r io.Reader) (Ref, error) {
	ref, err := l.fromArchive(ctx, org, parent, f, r)
	return ref, tryAgain(err)
}

func (l *Library) fromArchive(ctx context.Context, org, parent string, f Format, r io.Reader) (ref Ref, err error) {
	c, err := l.beginAfter(ctx, org, parent)
	if err != nil {
		return Ref{}, err
	}
	defer func() { err = joined(err, c.close()) }()
	c.packs.stage()
	u := &unpacker{limits: &l.limits, arrivals: newExternalSort(l.tempDir)}
	defer func() { err = joined(err, u.arrivals.close()) }()
	if err := u.unpack(ctx, c, f, r); err != nil {
		return Ref{}, err
	}
	if err := c.stock.known.close(); err != nil { // sorting wants the memory
		return Ref{}, err
	}
	tree := treeBuilder{limits: &l.limits, take: c.manifest.add}
	for e, err := range u.arrivals.sorted() {
		if err == nil {
			err = tree.add(e)
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return Ref{}, err
		}
	}
	if err := tree.flush(); err != nil {
		return Ref{}, err
	}
	return c.finish(ctx)
}

// unpacker reads the entries of a tar.
type unpacker struct {
	limits   *Limits
	supply   *archiveReader
	headers  int64
	total    atomic.Int64 // bytes of all files
	arrivals *externalSort
	dotted   []*entry // links whose targets go up again
}

// hardlink is the kind of entries that wait for the content of their target.
const hardlink kind = 0xff

// maxDotted bounds the links whose targets go up again.
const maxDotted = 20_000

func (u *unpacker) unpack(ctx context.Context, c *commit, f Format, r io.Reader) error {
	in := newChunker(ctx, c.stock, c.packs, u.arrive)
	s, err := newArchiveReader(in.line.ctx, f, r, u.limits)
	if err != nil {
		return in.abort(err)
	}
	defer s.stop()
	u.supply = s
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
	t := tar.NewReader(u.supply)
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
		end = u.supply.out
	}
	// archive/tar takes a missing end for an end. A tar that is cut between
	// two headers lacks the two empty blocks.
	if !u.supply.atEnd(end) {
		return &inputFault{io.ErrUnexpectedEOF}
	}
	return u.supply.drain()
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

func (u *unpacker) checkSize(e *entry, size int64) error {
	if size > u.limits.FileBytes {
		return tooLarge("The file '%s' has more than %d bytes.", printable(e.path), u.limits.FileBytes)
	}
	if u.total.Add(size) > u.limits.TotalBytes {
		return tooLarge("The files have more than %d bytes together.", u.limits.TotalBytes)
	}
	return nil
}

// entryReader reads the content of an entry.
type entryReader struct {
	t *tar.Reader
	u *unpacker
}

func (r *entryReader) Read(b []byte) (int, error) {
	before := r.u.supply.out
	n, err := r.t.Read(b)
	// A sparse file's holes grow the archive, too.
	if hole := int64(n) - (r.u.supply.out - before); hole > 0 {
		if err := r.u.supply.grow(hole); err != nil {
			return n, err
		}
	}
	if err != nil && err != io.EOF {
		err = &inputFault{err}
	}
	return n, err
}

// arrive takes complete entries in the order of the archive.
func (u *unpacker) arrive(e *entry) error {
	if e.kind == hardlink {
		if err := u.resolve(e); err != nil {
			return err
		}
	}
	if e.kind == symlink {
		dots, err := u.limits.checkTarget(e.path, e.target)
		if err != nil {
			return err
		}
		if dots {
			u.dotted = append(u.dotted, e)
		}
		if len(u.dotted) > maxDotted {
			return invalid("More than %d links have targets with '..' after a name.", maxDotted)
		}
	}
	return u.arrivals.add(e)
}

// resolve makes a hard link what its target is at this point of the archive.
func (u *unpacker) resolve(e *entry) error {
	target, err := u.arrivals.find(e.target)
	if err != nil {
		return err
	}
	if target == nil || target.kind == folder {
		return invalid("The link '%s' refers to '%s', which is no file that comes before it.", printable(e.path), printable(e.target))
	}
	path := e.path
	*e = *target
	e.path = path
	if err := u.checkSize(e, e.size); err != nil {
		return err
	}
	return u.supply.grow(e.size)
}

// checkDotted looks at links such as a/../../b, which stay in the tree as
// long as a is no link itself.
func (u *unpacker) checkDotted(ctx context.Context) error {
	for _, e := range u.dotted {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var failed error
		inside := walkTarget(e.path, e.target, func(at []string, known int) bool {
			for i := known; i < min(len(at), u.limits.Depth); i++ { // nothing lies deeper
				passed, err := u.arrivals.find(strings.Join(at[:i+1], "/"))
				if failed = err; err != nil || passed != nil && passed.kind == symlink {
					return false
				}
			}
			return true
		})
		switch {
		case failed != nil:
			return failed
		case !inside:
			return invalid("The link '%s' may leave the tree: its target '%s' goes up from a link.", printable(e.path), printable(e.target))
		}
	}
	return nil
}
