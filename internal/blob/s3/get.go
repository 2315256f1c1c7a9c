package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/stint-dev/stint/internal/blob"
)

const (
	// breaks is how many broken connections in a row a reader outlives, before
	// it has brought progress bytes since the first of them.
	breaks   = 5
	progress = 1 << 20
)

// Get implements blob.Store. The reader goes on by itself where a connection
// breaks or brings nothing for a minute.
func (s *Store) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, fmt.Errorf("reading %s: the offset %d is negative", key, offset)
	}
	if n == 0 {
		if _, err := s.Stat(ctx, key); err != nil {
			return nil, err
		}
		return io.NopCloser(strings.NewReader("")), nil
	}
	r := &reader{ctx: ctx, s: s, key: key, at: offset, left: -1}
	if n > 0 && n < 1<<62 {
		r.left = n
	}
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	return r, nil
}

// reader is an open object. It serves one goroutine.
type reader struct {
	ctx  context.Context
	s    *Store
	key  string
	at   int64  // the next byte
	left int64  // bytes still to come; -1: to the object's end
	etag string // of the object that was opened first

	body    io.ReadCloser // nil: to be opened
	cancel  context.CancelFunc
	watch   *time.Timer // cancels a body that brings nothing
	broken  int         // breaks since the last progress
	brought int64       // bytes since the last break
}

// open asks for the bytes from r.at on.
func (r *reader) open() error {
	var o minio.GetObjectOptions
	if err := r.conditions(&o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	body, info, header, err := r.s.core.GetObject(ctx, r.s.bucket, r.s.name(r.key), o)
	if err != nil {
		cancel()
		if answer := minio.ToErrorResponse(err); answer.StatusCode == http.StatusRequestedRangeNotSatisfiable && r.ctx.Err() == nil {
			r.left = 0 // the object ends before
			return nil
		}
		return r.s.explain(r.ctx, err)
	}
	if err := r.check(info, header); err != nil {
		cancel()
		return errors.Join(err, body.Close())
	}
	r.left, r.etag = info.Size, info.ETag
	r.body, r.cancel, r.watch = body, cancel, time.AfterFunc(r.s.stall, cancel)
	r.watch.Stop()
	return nil
}

func (r *reader) conditions(o *minio.GetObjectOptions) error {
	if r.etag != "" {
		if err := o.SetMatchETag(r.etag); err != nil {
			return err
		}
	}
	switch {
	case r.left > 0:
		return o.SetRange(r.at, r.at+r.left-1)
	case r.at > 0:
		return o.SetRange(r.at, 0)
	}
	return nil
}

// check refuses an answer that is not what was asked for.
func (r *reader) check(info minio.ObjectInfo, header http.Header) error {
	from := header.Get("Content-Range")
	switch {
	case info.Size < 0:
		return fmt.Errorf("the storage at %s does not say how long its answer is", r.s.Endpoint())
	case from == "" && r.at > 0, from != "" && !strings.HasPrefix(from, fmt.Sprintf("bytes %d-", r.at)):
		return fmt.Errorf("the storage at %s was asked for the bytes from %d on and sent others", r.s.Endpoint(), r.at)
	case r.left >= 0 && info.Size > r.left:
		return fmt.Errorf("the storage at %s sent more bytes than it was asked for", r.s.Endpoint())
	}
	return nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for {
		switch {
		case r.ctx.Err() != nil:
			return 0, context.Cause(r.ctx)
		case r.left == 0:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if r.body == nil {
			if err := r.open(); err != nil {
				return 0, fmt.Errorf("reading on in %s at %d: %w", r.key, r.at, err)
			}
			continue
		}
		n, err := r.some(p)
		if err == nil || n > 0 {
			return n, nil
		}
		if err := r.recover(err); err != nil {
			return 0, fmt.Errorf("reading %s at %d: %w", r.key, r.at, err)
		}
	}
}

// some reads what has come, and gives up a body that brings nothing.
func (r *reader) some(p []byte) (int, error) {
	r.watch.Reset(r.s.stall)
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.watch.Stop()
	r.at, r.left, r.brought = r.at+int64(n), r.left-int64(n), r.brought+int64(n)
	return n, err
}

// recover lets go of a broken body, so that the next one is opened where it
// ended, or gives up.
func (r *reader) recover(cause error) error {
	r.drop()
	if r.brought >= progress {
		r.broken = 0
	}
	r.brought = 0
	if r.broken++; r.broken > breaks {
		return fmt.Errorf("the storage at %s broke off %d times: %w", r.s.Endpoint(), r.broken, cause)
	}
	return pause(r.ctx, r.broken)
}

func (r *reader) drop() {
	if r.body != nil {
		r.cancel()
		_ = r.body.Close() // it is read only, and given up
		r.body = nil
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.drop()
	r.left = 0
	return nil
}

// pause waits a random time that grows with the try, 2 s at most.
func pause(ctx context.Context, try int) error {
	t := time.NewTimer(rand.N(min(50*time.Millisecond<<try, 2*time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
