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

// Kind is what an entry is.
type Kind byte

// The kinds of entry.
const (
	File Kind = 1 + iota
	Folder
	Link
)

// Entry is a file, a folder or a link of a tree.
type Entry struct {
	Path   string // relative, slash-separated, clean; any bytes but NUL
	Kind   Kind
	Mode   uint16 // permission bits
	Sec    int64  // modification time: Unix seconds, which may be negative,
	Nsec   int32  // and nanoseconds within them
	Size   int64  // of files: the sum of their chunks, bytes
	Sum    Hash   // of files: SHA-256 of the whole content
	Chunks []Chunk
	Target string // of links
}

// Chunk is a piece of a file's content.
type Chunk struct {
	Hash Hash
	Raw  uint32 // bytes of content
}

// Time is the modification time.
func (e *Entry) Time() time.Time { return time.Unix(e.Sec, int64(e.Nsec)) }

const (
	treeMagic = "stint-t1"
	// maxText bounds a path and a link's target, in bytes.
	maxText = 64 << 10
	// maxChunks bounds the chunks of one file.
	maxChunks = 1 << 18
	// treeWindow bounds the memory that reading a tree takes.
	treeWindow = 8 << 20
)

var emptySum = Hash(sha256.Sum256(nil))

// append adds the form of e. A file of one chunk has its sum and size from
// that, an empty one none.
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

// TreeWriter writes a tree. It serves one goroutine.
type TreeWriter struct {
	z *zstd.Encoder
	b []byte
}

// NewTreeWriter begins a tree on w.
func NewTreeWriter(w io.Writer) (*TreeWriter, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("writing a tree: %w", err)
	}
	return &TreeWriter{z: z, b: []byte(treeMagic)}, nil
}

// Add writes the next entry in path order.
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

// Close ends the tree. It leaves the writer below open.
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

// TreeReader reads a tree and holds it to its form: paths are clean, relative
// and in path order, none comes twice, what is in a folder comes after it and
// nothing lies below a file or a link. It serves one goroutine; Close it.
type TreeReader struct {
	z     *zstd.Decoder
	r     *bufio.Reader
	begun bool
	ended bool
	above []level
}

// level is a folder that the entry read last lies in.
type level struct {
	path string // with a slash at its end; empty for the top
	last string // the name of the entry in it that was read last
}

// NewTreeReader reads a tree from r.
func NewTreeReader(r io.Reader) (*TreeReader, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(treeWindow))
	if err != nil {
		return nil, fmt.Errorf("reading a tree: %w", err)
	}
	return &TreeReader{z: z, r: bufio.NewReader(z), above: []level{{}}}, nil
}

// Close gives memory back.
func (t *TreeReader) Close() { t.z.Close() }

// Next gives the next entry, io.EOF after the last one. A tree that breaks
// off is io.ErrUnexpectedEOF.
func (t *TreeReader) Next() (*Entry, error) {
	if t.ended {
		return nil, io.EOF
	}
	r := fields{r: t.r}
	if !t.begun {
		t.begun = true
		if magic := string(r.bytes(len(treeMagic))); r.err == nil && magic != treeMagic {
			return nil, malformed("this is no tree: it does not begin with %q", treeMagic)
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
	return e, t.place(e)
}

// end looks for bytes after the end mark, which also has the checksum read.
func (t *TreeReader) end() error {
	t.ended = true
	switch _, err := t.r.ReadByte(); {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err == nil:
		return malformed("a tree goes on after its end")
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
		r.fail("an entry is of kind %d", e.Kind)
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

// place checks where e stands.
func (t *TreeReader) place(e *Entry) error {
	for len(t.above) > 1 && !strings.HasPrefix(e.Path, t.above[len(t.above)-1].path) {
		t.above = t.above[:len(t.above)-1]
	}
	in := &t.above[len(t.above)-1]
	name := e.Path[len(in.path):]
	switch {
	case name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0:
		return malformed("the path '%s' is not clean", shown(e.Path))
	case strings.HasPrefix(e.Path, "/"):
		return malformed("the path '%s' is absolute", shown(e.Path))
	case strings.IndexByte(name, '/') >= 0:
		return malformed("the entry '%s' does not follow its folder", shown(e.Path))
	case name <= in.last:
		return malformed("the entry '%s' comes twice or out of order", shown(e.Path))
	}
	in.last = name
	if e.Kind == Folder {
		t.above = append(t.above, level{path: e.Path + "/"})
	}
	return nil
}

// shown is a path fit for a message.
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

// fields reads the parts of an entry; after the first fault it gives zeros.
type fields struct {
	r   *bufio.Reader
	err error
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = malformed(format, args...)
	}
}

func (f *fields) broken(err error) {
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
		f.broken(err)
	}
	return b
}

// bytes gives n bytes, all zero after a fault. n is small.
func (f *fields) bytes(n int) []byte {
	b := make([]byte, n)
	if f.err != nil {
		return b
	}
	if _, err := io.ReadFull(f.r, b); err != nil {
		f.broken(err)
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
		f.number(err)
		return 0
	case v > limit:
		f.fail("a number is %d where %d is the most", v, limit)
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
		f.number(err)
		return 0
	}
	return v
}

// number keeps what failed while a number was read. One that never ends is
// the only error that comes from no reader, and has no name.
func (f *fields) number(err error) {
	if strings.HasPrefix(err.Error(), "binary: ") {
		f.fail("a number has too many bytes")
		return
	}
	f.broken(err)
}

func (f *fields) text() string { return string(f.bytes(int(f.uint(maxText)))) }
