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

// zstdWindow is the maximum window in bytes of a zstd archive, which bounds the
// memory for expanding it. Archives made with zstd --long need more and are refused.
const zstdWindow = 32 << 20

// inputFault is an error of reading the archive. Unless the source failed, the
// archive itself is invalid.
type inputFault struct{ cause error }

func (f *inputFault) Error() string { return f.cause.Error() }
func (f *inputFault) Unwrap() error { return f.cause }

// archiveReader reads the tar inside an archive and limits its expansion.
type archiveReader struct {
	source source
	limits *limits.Limits
	plain  io.Reader    // the expanded tar
	stop   func()       // releases the expander
	out    int64        // bytes of the tar that were read
	zeros  int          // number of zeros at the end of these bytes, at most format.TarEnd
	grown  atomic.Int64 // expanded bytes, see grow
}

// source is the caller's reader.
type source struct {
	ctx context.Context
	r   io.Reader
	n   atomic.Int64 // bytes that were read
	err error        // failure of r or end of ctx
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
		return nil, stint.InvalidParam("", "'%s' is not an archive format; use tar.gz, tar or tar.zst.", limits.Printable(string(f)))
	}
	return s, nil
}

// Read reads the expanded tar.
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

// atEnd reports whether the bytes after the first n are the end of a tar: padding
// and two empty blocks.
func (s *archiveReader) atEnd(n int64) bool {
	return s.out == n+format.TarPadding(n)+format.TarEnd && s.zeros == format.TarEnd
}

// grow counts expanded bytes and returns an error if the expansion exceeds
// Limits.Ratio.
func (s *archiveReader) grow(n int64) error {
	grown := s.grown.Add(n)
	if grown > s.limits.RatioFloor && grown/s.limits.Ratio > s.source.n.Load() {
		return limits.TooLarge("The archive grows to more than %d times its size.", s.limits.Ratio)
	}
	return nil
}

// inputError returns the error to report for err. If the archive is invalid, it is a
// *stint.Error for the sender of the archive.
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
		message = "The archive is not a valid tar: it has a broken header."
	}
	return &stint.Error{Kind: stint.KindInvalid, Code: stint.CodeInvalidParameter, Message: message, Cause: fault.cause}
}

// drainMax is the maximum number of zeros that may follow the end of a tar.
const drainMax = 16 << 20

// drain reads the archive to its end, which also verifies its checksum. The rest of
// the tar must be zeros.
func (s *archiveReader) drain() error {
	b := make([]byte, 32<<10)
	for left := drainMax; left > 0; {
		n, err := s.Read(b)
		for _, c := range b[:n] {
			if c != 0 {
				return limits.Invalid("The archive continues after the end of its tar.")
			}
		}
		switch left -= n; {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &inputFault{err}
		}
	}
	return limits.Invalid("The archive continues after the end of its tar.")
}
