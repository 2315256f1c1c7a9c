package scan

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/pack"
)

// zstdWindow bounds the memory that an archive can ask for. Archives made with
// zstd --long need more and are refused.
const zstdWindow = 32 << 20

// inputFault is an error that the archive itself is to blame for, as far as
// the source it came from did not fail.
type inputFault struct{ cause error }

func (f *inputFault) Error() string { return f.cause.Error() }
func (f *inputFault) Unwrap() error { return f.cause }

// supply gives the tar inside an archive and watches over how it grows.
type archiveReader struct {
	source source
	limits *limits.Limits
	plain  io.Reader // the expanded tar
	stop   func()    // of the expander
	out    int64     // bytes given
	zeros  int       // how many of the last ones are zeros, as far as a tar's end is long
	grown  atomic.Int64
}

// source is the reader that the caller handed in.
type source struct {
	ctx context.Context
	r   io.Reader
	n   atomic.Int64
	err error // what made it fail
}

func (s *source) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	n, err := s.r.Read(b)
	s.n.Add(int64(n))
	if err != nil && !pack.IsEOF(err) {
		s.err = err
	}
	return n, err
}

func newArchiveReader(ctx context.Context, f format.Format, r io.Reader, l *limits.Limits) (*archiveReader, error) {
	s := &archiveReader{source: source{ctx: ctx, r: r}, limits: l, stop: func() {}}
	in := bufio.NewReaderSize(&s.source, 64<<10)
	switch f {
	case format.Tar:
		s.plain = in
	case format.TarGzip:
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, s.inputError(&inputFault{err})
		}
		s.plain = z
	case format.TarZstd:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, s.inputError(&inputFault{err})
		}
		s.plain, s.stop = z, z.Close
	default:
		return nil, stint.InvalidParam("", "'%s' is no format of archives; use tar.gz, tar or tar.zst.", limits.Printable(string(f)))
	}
	return s, nil
}

// Read gives bytes of the tar.
func (s *archiveReader) Read(b []byte) (int, error) {
	n, err := s.plain.Read(b)
	s.out += int64(n)
	s.countZeros(b[:n])
	if grown := s.grow(int64(n)); grown != nil {
		return n, grown
	}
	return n, err
}

func (s *archiveReader) countZeros(b []byte) {
	b = b[max(0, len(b)-format.TarEnd):]
	rest := bytes.TrimRight(b, "\x00")
	if len(rest) > 0 {
		s.zeros = 0
	}
	s.zeros = min(s.zeros+len(b)-len(rest), format.TarEnd)
}

// atEnd tells whether what came after the first n bytes is a tar's end: their
// padding and two empty blocks.
func (s *archiveReader) atEnd(n int64) bool {
	return s.out == n+format.TarPadding(n)+format.TarEnd && s.zeros == format.TarEnd
}

// grow counts what the archive became, and refuses one that becomes far
// larger than it is.
func (s *archiveReader) grow(n int64) error {
	grown := s.grown.Add(n)
	if grown > s.limits.RatioFloor && grown/s.limits.Ratio > s.source.n.Load() {
		return limits.TooLarge("The archive grows to more than %d times its size.", s.limits.Ratio)
	}
	return nil
}

// judge turns what reading failed with into the error to return: a fault of
// the input becomes one that its sender understands.
func (s *archiveReader) inputError(err error) error {
	var fault *inputFault
	var refused *stint.Error
	switch {
	case err == nil || errors.As(err, &refused) || !errors.As(err, &fault):
		return err
	case s.source.err != nil:
		return fmt.Errorf("receiving an archive: %w", s.source.err)
	}
	message := "The archive is damaged, or not of the format that was declared."
	switch {
	case pack.IsEOF(fault.cause):
		message = "The archive is cut short."
	case errors.Is(fault.cause, gzip.ErrChecksum), errors.Is(fault.cause, zstd.ErrCRCMismatch):
		message = "The archive is damaged: its checksum is wrong."
	case errors.Is(fault.cause, zstd.ErrWindowSizeExceeded), errors.Is(fault.cause, zstd.ErrDecoderSizeExceeded):
		message = fmt.Sprintf("The archive needs a window of more than %d MiB to expand. Compress it without --long or --ultra.", zstdWindow>>20)
	case errors.Is(fault.cause, tar.ErrHeader):
		message = "The archive is no valid tar: it holds a broken header."
	}
	return &stint.Error{Kind: stint.KindInvalid, Code: stint.CodeInvalidParameter, Message: message, Cause: fault.cause}
}

// drainMax is how much padding may follow the end of a tar.
const drainMax = 16 << 20

// drain reads the rest of the archive, which holds the checksum of all before.
// Only zeros may come.
func (s *archiveReader) drain() error {
	b := make([]byte, 32<<10)
	for left := drainMax; left > 0; {
		n, err := s.Read(b)
		for _, c := range b[:n] {
			if c != 0 {
				return limits.Invalid("The archive goes on after the end of its tar.")
			}
		}
		switch left -= n; {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &inputFault{err}
		}
	}
	return limits.Invalid("The archive goes on after the end of its tar.")
}
