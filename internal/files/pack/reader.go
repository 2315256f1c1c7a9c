package pack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
)

// Reader reads ranges of packs. It reads adjacent ranges from one stream, because a
// request for each range would be slow with a remote store. It is not safe for
// concurrent use. The caller must close it.
type Reader struct {
	Store blob.Store
	Org   string
	open  []*packStream // ordered by their last use, the latest last
}

// packStream is a stream of the bytes of a pack.
type packStream struct {
	pack  string
	r     io.ReadCloser
	from  io.Reader // r, or a buffer over it
	at    int64     // offset of the next byte in the pack
	reads int       // number of reads so far
}

const (
	openStreams = 4
	// skipMax is the maximum number of bytes that are read and dropped to reach an
	// offset, instead of opening another stream.
	skipMax = 64 << 10
	// streamBuffer is the size in bytes of the buffer that a stream gets at its
	// third read, because further small reads are likely.
	streamBuffer = 64 << 10
)

// Read fills b with the bytes of a pack from offset. If the pack is too short, the
// error wraps format.ErrCorrupt.
func (f *Reader) Read(ctx context.Context, packID string, offset int64, b []byte) error {
	s, err := f.stream(ctx, packID, offset)
	if err != nil {
		return fmt.Errorf("reading a pack: %w", err)
	}
	if s.reads++; s.reads == 3 {
		s.from = bufio.NewReaderSize(s.r, streamBuffer)
	}
	n, err := io.ReadFull(s.from, b)
	s.at += int64(n)
	if err == nil {
		return nil
	}
	if IsEOF(err) {
		err = fmt.Errorf("%w: its pack is cut short", format.ErrCorrupt)
	}
	return errors.Join(fmt.Errorf("reading a pack: %w", err), f.drop(s))
}

// stream returns a stream of the pack that is positioned at offset.
func (f *Reader) stream(ctx context.Context, packID string, offset int64) (*packStream, error) {
	for i, s := range f.open {
		if s.pack != packID {
			continue
		}
		if skip := offset - s.at; skip >= 0 && skip <= skipMax {
			n, err := io.CopyN(io.Discard, s.from, skip)
			s.at += n
			if err == nil {
				f.open = append(append(f.open[:i:i], f.open[i+1:]...), s)
				return s, nil
			}
		}
		if err := f.drop(s); err != nil {
			return nil, err
		}
		break
	}
	if len(f.open) == openStreams {
		if err := f.drop(f.open[0]); err != nil {
			return nil, err
		}
	}
	r, err := f.Store.Get(ctx, Key(f.Org, packID), offset, -1)
	if err != nil {
		return nil, err
	}
	s := &packStream{pack: packID, r: r, from: r, at: offset}
	f.open = append(f.open, s)
	return s, nil
}

func (f *Reader) drop(s *packStream) error {
	f.open = slices.DeleteFunc(f.open, func(o *packStream) bool { return o == s })
	return s.r.Close()
}

// Close closes the streams.
func (f *Reader) Close() error {
	var errs []error
	for _, s := range f.open {
		errs = append(errs, s.r.Close())
	}
	f.open = nil
	return errors.Join(errs...)
}

// File is a file with content that is read from packs. It is not safe for concurrent
// use.
type File struct {
	*io.SectionReader
	packs  *Reader
	closed bool
}

// NewFile returns a file of size bytes with the content of r. r must read packs
// through p, which is closed with the file.
func NewFile(r io.ReaderAt, size int64, p *Reader) *File {
	return &File{SectionReader: io.NewSectionReader(r, 0, size), packs: p}
}

// Read implements io.Reader.
func (f *File) Read(b []byte) (int, error) {
	if f.closed {
		return 0, errClosed
	}
	return f.SectionReader.Read(b)
}

// Close closes the streams that reading opened.
func (f *File) Close() error {
	f.closed = true
	return f.packs.Close()
}

var errClosed = errors.New("the file is closed")
