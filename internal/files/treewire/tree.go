package treewire

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Kind is the kind of an entry.
type Kind byte

// The kinds of entries.
const (
	File Kind = 1 + iota
	Folder
	Link
)

// Entry is a file, folder, or link of a tree.
type Entry struct {
	Path   string // relative, slash-separated, clean; any bytes except NUL
	Kind   Kind
	Mode   uint16 // permission bits
	Sec    int64  // modification time in Unix seconds, which may be negative
	Nsec   int32  // nanoseconds within Sec
	Size   int64  // bytes of a file: the sum of its chunks
	Sum    Hash   // SHA-256 of a file's content
	Chunks []Chunk
	Target string // of a link
}

// Chunk is a piece of a file's content.
type Chunk struct {
	Hash Hash
	Raw  uint32 // bytes of content
}

// Time returns the modification time.
func (e *Entry) Time() time.Time { return time.Unix(e.Sec, int64(e.Nsec)) }

const (
	treeMagic = "stint-t1"
	// maxText bounds a path and a link's target, in bytes.
	maxText = 64 << 10
	// maxChunks bounds the chunks of one file.
	maxChunks = 1 << 18
	// treeWindow bounds the memory for decompressing a tree, in bytes.
	treeWindow = 8 << 20
)

var emptySum = Hash(sha256.Sum256(nil))

// append appends the encoding of e to b. The sum is encoded only for files of
// several chunks; otherwise it follows from the chunk.
func (e *Entry) append(b []byte) []byte {
	b = append(b, byte(e.Kind))
	b = appendText(b, e.Path)
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendVarint(b, e.Sec)
	b = binary.AppendUvarint(b, uint64(e.Nsec))
	switch e.Kind {
	case Link:
		b = appendText(b, e.Target)
	case File:
		b = binary.AppendUvarint(b, uint64(len(e.Chunks)))
		if len(e.Chunks) > 1 {
			b = append(b, e.Sum[:]...)
		}
		for i := range e.Chunks {
			b = binary.AppendUvarint(b, uint64(e.Chunks[i].Raw))
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
func (w *TreeWriter) Add(e *Entry) error {
	w.b = e.append(w.b)
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

// Next returns the next entry, or io.EOF after the last one. It returns
// io.ErrUnexpectedEOF if the tree is incomplete.
func (t *TreeReader) Next() (*Entry, error) {
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
	e := &Entry{Kind: Kind(r.byte())}
	if e.Kind == 0 && r.err == nil {
		return nil, t.end()
	}
	e.read(&r)
	if r.err != nil {
		return nil, fmt.Errorf("reading a tree: %w", r.err)
	}
	return e, t.checkPath(e)
}

// end checks that nothing follows the end mark. Reading also verifies the checksum.
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

func (e *Entry) read(r *fields) {
	e.Path = r.text()
	e.Mode = uint16(r.uint(0o777))
	e.Sec = r.int()
	e.Nsec = int32(r.uint(999_999_999))
	switch e.Kind {
	case Folder:
	case Link:
		if e.Target = r.text(); e.Target == "" {
			r.fail("the link '%s' has no target", shown(e.Path))
		}
	case File:
		e.readContent(r)
	default:
		r.fail("an entry has the unknown kind %d", e.Kind)
	}
}

func (e *Entry) readContent(r *fields) {
	n := int(r.uint(maxChunks))
	e.Sum = emptySum
	if n > 1 {
		e.Sum = Hash(r.bytes(len(Hash{})))
	}
	e.Chunks = make([]Chunk, 0, min(n, 16))
	for i := 0; i < n && r.err == nil; i++ {
		c := Chunk{Raw: uint32(r.uint(MaxChunk)), Hash: Hash(r.bytes(len(Hash{})))}
		if c.Raw == 0 {
			r.fail("the file '%s' has an empty chunk", shown(e.Path))
		}
		e.Chunks = append(e.Chunks, c)
		e.Size += int64(c.Raw)
	}
	if n == 1 && r.err == nil {
		e.Sum = e.Chunks[0].Hash
	}
}

// checkPath validates the path of e and its position in the tree.
func (t *TreeReader) checkPath(e *Entry) error {
	for len(t.parents) > 1 && !strings.HasPrefix(e.Path, t.parents[len(t.parents)-1].path) {
		t.parents = t.parents[:len(t.parents)-1]
	}
	in := &t.parents[len(t.parents)-1]
	name := e.Path[len(in.path):]
	switch {
	case name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0:
		return malformed("the path '%s' is not clean", shown(e.Path))
	case strings.HasPrefix(e.Path, "/"):
		return malformed("the path '%s' is absolute", shown(e.Path))
	case strings.IndexByte(name, '/') >= 0:
		return malformed("the entry '%s' does not follow its folder", shown(e.Path))
	case name <= in.last:
		return malformed("the entry '%s' is repeated or out of order", shown(e.Path))
	}
	in.last = name
	if e.Kind == Folder {
		t.parents = append(t.parents, parent{path: e.Path + "/"})
	}
	return nil
}

// shown returns path in a form for messages.
func shown(path string) string {
	const most = 200
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(path, "?"))
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// fields reads the fields of an entry. After the first error it returns zeros.
type fields struct {
	r   *bufio.Reader
	err error
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = malformed(format, args...)
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

// bytes returns n bytes, which are zero after an error. n is small.
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

func (f *fields) text() string { return string(f.bytes(int(f.uint(maxText)))) }
