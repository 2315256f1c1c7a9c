package treewire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
)

const (
	treeMagic = "stint-t1"
	// maxText is the maximum length in bytes of a path and of a link's target.
	maxText = 64 << 10
	// maxChunks is the maximum number of chunks of one file.
	maxChunks = 1 << 18
	// treeWindow bounds the memory for decompressing a tree, in bytes.
	treeWindow = 8 << 20
)

// appendEntry appends the encoding of e to b. The SHA-256 of a file is encoded only
// if the file has several chunks. The SHA-256 of other files is the hash of their
// only chunk, or format.EmptyHash.
func appendEntry(b []byte, e *format.Entry) []byte {
	b = append(b, byte(e.Kind))
	b = appendText(b, e.Path)
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendVarint(b, e.Sec)
	b = binary.AppendUvarint(b, uint64(e.Nsec))
	switch e.Kind {
	case format.Symlink:
		b = appendText(b, e.Target)
	case format.File:
		b = binary.AppendUvarint(b, uint64(len(e.Chunks)))
		if len(e.Chunks) > 1 {
			b = append(b, e.SHA256[:]...)
		}
		for i := range e.Chunks {
			b = binary.AppendUvarint(b, uint64(e.Chunks[i].Size))
			b = append(b, e.Chunks[i].Hash[:]...)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// TreeWriter writes a tree. It is not safe for concurrent use.
type TreeWriter struct {
	z *zstd.Encoder
	b []byte
}

// NewTreeWriter returns a writer of a tree to w.
func NewTreeWriter(w io.Writer) (*TreeWriter, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("writing a tree: %w", err)
	}
	return &TreeWriter{z: z, b: []byte(treeMagic)}, nil
}

// Add writes the next entry. Entries must be in path order.
func (w *TreeWriter) Add(e *format.Entry) error {
	w.b = appendEntry(w.b, e)
	if len(w.b) < 32<<10 {
		return nil
	}
	return w.flush()
}

func (w *TreeWriter) flush() error {
	_, err := w.z.Write(w.b)
	w.b = w.b[:0]
	if err != nil {
		return fmt.Errorf("writing a tree: %w", err)
	}
	return nil
}

// Close ends the tree. It does not close the underlying writer.
func (w *TreeWriter) Close() error {
	w.b = append(w.b, 0)
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.z.Close(); err != nil {
		return fmt.Errorf("writing a tree: %w", err)
	}
	return nil
}

// TreeReader reads and validates a tree: paths are clean, relative, unique, and in
// path order; an entry follows its folder, and files and links have no entries
// below them. It is not safe for concurrent use. The caller closes it.
type TreeReader struct {
	z       *zstd.Decoder
	r       *bufio.Reader
	begun   bool
	ended   bool
	parents []parent // of the last entry, outermost first
}

// parent is a folder that contains the last entry.
type parent struct {
	path string // with a slash at the end; empty for the root
	last string // name of the last entry in the folder
}

// NewTreeReader returns a reader of the tree in r.
func NewTreeReader(r io.Reader) (*TreeReader, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(treeWindow))
	if err != nil {
		return nil, fmt.Errorf("reading a tree: %w", err)
	}
	return &TreeReader{z: z, r: bufio.NewReader(z), parents: []parent{{}}}, nil
}

// Close releases memory.
func (t *TreeReader) Close() { t.z.Close() }

// Next returns the next entry, or io.EOF after the last one. If the tree is
// incomplete, the error wraps io.ErrUnexpectedEOF.
func (t *TreeReader) Next() (*format.Entry, error) {
	if t.ended {
		return nil, io.EOF
	}
	r := fields{r: t.r}
	if !t.begun {
		t.begun = true
		if magic := string(r.bytes(len(treeMagic))); r.err == nil && magic != treeMagic {
			return nil, malformed("a tree must begin with %q", treeMagic)
		}
	}
	e := &format.Entry{Kind: format.Kind(r.byte())}
	if e.Kind == 0 && r.err == nil {
		return nil, t.end()
	}
	r.entry(e)
	if r.err != nil {
		return nil, fmt.Errorf("reading a tree: %w", r.err)
	}
	return e, t.checkPath(e)
}

// end returns io.EOF if nothing follows the end mark. Reading up to the end also
// verifies the checksum of the compressed data.
func (t *TreeReader) end() error {
	t.ended = true
	switch _, err := t.r.ReadByte(); {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err == nil:
		return malformed("a tree continues after its end")
	default:
		return fmt.Errorf("reading a tree: %w", err)
	}
}

// entry reads the fields of e after Kind, which must be set.
func (f *fields) entry(e *format.Entry) {
	e.Path = f.text()
	e.Mode = uint16(f.uint(0o777))
	e.Sec = f.int()
	e.Nsec = int32(f.uint(999_999_999))
	switch e.Kind {
	case format.Folder:
	case format.Symlink:
		if e.Target = f.text(); e.Target == "" {
			f.fail("the link '%s' has no target", limits.Printable(e.Path))
		}
	case format.File:
		f.content(e)
	default:
		f.fail("an entry has the unknown kind %d", e.Kind)
	}
}

func (f *fields) content(e *format.Entry) {
	n := int(f.uint(maxChunks))
	e.SHA256 = format.EmptyHash
	if n > 1 {
		e.SHA256 = f.hash()
	}
	e.Chunks = make([]format.Chunk, 0, min(n, 16))
	for i := 0; i < n && f.err == nil; i++ {
		c := format.Chunk{Size: uint32(f.uint(MaxChunk)), Hash: f.hash()}
		if c.Size == 0 {
			f.fail("the file '%s' has an empty chunk", limits.Printable(e.Path))
		}
		e.Chunks = append(e.Chunks, c)
		e.Size += int64(c.Size)
	}
	if n == 1 && f.err == nil {
		e.SHA256 = e.Chunks[0].Hash
	}
}

// checkPath validates the path of e and its position in the tree.
func (t *TreeReader) checkPath(e *format.Entry) error {
	for len(t.parents) > 1 && !strings.HasPrefix(e.Path, t.parents[len(t.parents)-1].path) {
		t.parents = t.parents[:len(t.parents)-1]
	}
	in := &t.parents[len(t.parents)-1]
	name := e.Path[len(in.path):]
	switch {
	case name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0:
		return malformed("the path '%s' is not clean", limits.Printable(e.Path))
	case strings.HasPrefix(e.Path, "/"):
		return malformed("the path '%s' is absolute", limits.Printable(e.Path))
	case strings.IndexByte(name, '/') >= 0:
		return malformed("the entry '%s' does not follow its folder", limits.Printable(e.Path))
	case name <= in.last:
		return malformed("the entry '%s' is repeated or out of order", limits.Printable(e.Path))
	}
	in.last = name
	if e.Kind == format.Folder {
		t.parents = append(t.parents, parent{path: e.Path + "/"})
	}
	return nil
}

// fields reads the fields of an entry. After the first error, all fields are zero.
type fields struct {
	r   *bufio.Reader
	err error
}

func (f *fields) fail(text string, args ...any) {
	if f.err == nil {
		f.err = malformed(text, args...)
	}
}

func (f *fields) setErr(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) byte() byte {
	if f.err != nil {
		return 0
	}
	b, err := f.r.ReadByte()
	if err != nil {
		f.setErr(err)
	}
	return b
}

// bytes returns n bytes, which are zero after an error. n must be small, because the
// memory is allocated before the bytes are read.
func (f *fields) bytes(n int) []byte {
	b := make([]byte, n)
	if f.err != nil {
		return b
	}
	if _, err := io.ReadFull(f.r, b); err != nil {
		f.setErr(err)
		clear(b)
	}
	return b
}

func (f *fields) uint(limit uint64) uint64 {
	if f.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(f.r)
	switch {
	case err != nil:
		f.setNumberErr(err)
		return 0
	case v > limit:
		f.fail("a number is %d; the maximum is %d", v, limit)
		return 0
	}
	return v
}

func (f *fields) int() int64 {
	if f.err != nil {
		return 0
	}
	v, err := binary.ReadVarint(f.r)
	if err != nil {
		f.setNumberErr(err)
		return 0
	}
	return v
}

// setNumberErr records an error of reading a varint. The error for a varint that is
// too long is recognized by its text, because encoding/binary does not export it.
func (f *fields) setNumberErr(err error) {
	if strings.HasPrefix(err.Error(), "binary: ") {
		f.fail("a number has too many bytes")
		return
	}
	f.setErr(err)
}

func (f *fields) hash() format.Hash { return format.Hash(f.bytes(len(format.Hash{}))) }

func (f *fields) text() string { return string(f.bytes(int(f.uint(maxText)))) }
