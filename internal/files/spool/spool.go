package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/stint-dev/stint"
)

// Spool holds bytes that are appended and read back: the last ones in memory, the
// rest in an unnamed temporary file, which disappears with the process. It is not
// safe for concurrent use.
type Spool struct {
	dir  string
	keep int // bytes kept in memory before they are written to the file
	f    *os.File
	size int64 // bytes in f
	tail []byte
}

const spoolTail = 1 << 20

// New returns an empty spool that creates its temporary file in dir.
func New(dir string) *Spool { return &Spool{dir: dir, keep: spoolTail} }

// Length returns the number of bytes.
func (s *Spool) Length() int64 { return s.size + int64(len(s.tail)) }

// Write appends b.
func (s *Spool) Write(b []byte) (int, error) {
	if len(s.tail)+len(b) <= s.keep {
		s.tail = append(s.tail, b...)
		return len(b), nil
	}
	if err := s.spill(s.tail); err != nil {
		return 0, err
	}
	s.tail = s.tail[:0]
	if len(b) <= s.keep {
		s.tail = append(s.tail, b...)
		return len(b), nil
	}
	return len(b), s.spill(b)
}

// spill writes b to the file.
func (s *Spool) spill(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if s.f == nil {
		f, err := os.CreateTemp(s.dir, "stint-content-*")
		if err != nil {
			return fmt.Errorf("creating a temporary file: %w", userError(err))
		}
		s.f = f
		if err := os.Remove(f.Name()); err != nil {
			return fmt.Errorf("removing the name of a temporary file: %w", err)
		}
	}
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		return fmt.Errorf("writing a temporary file: %w", userError(err))
	}
	s.size += int64(len(b))
	return nil
}

// userError returns an error with a message for the user if the disk is full, and
// otherwise err.
func userError(err error) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "The disk for temporary files is full. Try again after the operator has freed space.",
	}
}

// ReadAt implements io.ReaderAt.
func (s *Spool) ReadAt(b []byte, off int64) (n int, err error) {
	if off < s.size {
		inFile := b[:min(int64(len(b)), s.size-off)]
		if n, err = s.f.ReadAt(inFile, off); n < len(inFile) {
			return n, fmt.Errorf("reading a temporary file: %w", err)
		}
	}
	if n < len(b) {
		at := off + int64(n) - s.size
		if at < int64(len(s.tail)) {
			n += copy(b[n:], s.tail[at:])
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Section returns a reader of n bytes from the offset off.
func (s *Spool) Section(off, n int64) *io.SectionReader { return io.NewSectionReader(s, off, n) }

// Reset empties the spool for reuse.
func (s *Spool) Reset() { s.size, s.tail = 0, s.tail[:0] }

// Close frees the memory and the disk space.
func (s *Spool) Close() error {
	s.tail = nil
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f = nil
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing a temporary file: %w", err)
	}
	return nil
}
