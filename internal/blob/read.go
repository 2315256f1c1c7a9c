package blob

import (
	"context"
	"io"
)

// ContextReader returns a reader of r that fails when ctx is done.
func ContextReader(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// ReadFull reads until p is full or r fails. Unlike io.ReadFull, it returns the error of
// r unchanged, so that io.EOF is the end of r and io.ErrUnexpectedEOF is a failure of r.
// After 100 empty reads it returns io.ErrNoProgress.
func ReadFull(r io.Reader, p []byte) (n int, err error) {
	for empty := 0; n < len(p) && err == nil; {
		var c int
		c, err = r.Read(p[n:])
		n += c
		if empty++; c > 0 {
			empty = 0
		} else if empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	if n == len(p) && err == io.EOF { //nolint:errorlint // a wrapped io.EOF is a failure of the reader
		err = nil
	}
	return n, err
}
