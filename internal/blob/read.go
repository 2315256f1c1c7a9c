package blob

import (
	"context"
	"io"
)

// ContextReader returns a reader of r. When ctx is done, its Read returns the cause of
// ctx. It does not interrupt a Read of r in progress.
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
	for empty := 0; n < len(p); {
		c, err := r.Read(p[n:])
		n += c
		switch empty++; {
		case err == io.EOF && n == len(p):
			return n, nil
		case err != nil:
			return n, err
		case c > 0:
			empty = 0
		case empty == 100:
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}
