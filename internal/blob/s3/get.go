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
	// maxBreaks is the maximum number of broken connections in a row. A connection
	// that delivers at least progress bytes resets the count.
	maxBreaks = 5
	progress  = 1 << 20
)

// Get implements blob.Store. The reader reconnects and continues if a connection
// breaks or delivers nothing for a minute.
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

// reader reads an object. It is not safe for concurrent use.
type reader struct {
	ctx  context.Context
	s    *Store
	key  string
	at   int64  // the next byte
	left int64  // bytes still to come; -1: to the object's end
	etag string // set by the first connection; later ones must return the same object

	body     io.ReadCloser // nil if there is no connection
	cancel   context.CancelFunc
	watch    *time.Timer // cancels a stalled connection
	broken   int         // breaks since the last progress
	received int64       // bytes since the last break
}

// open requests the bytes from r.at on. If the object does not have them, open sets
// r.left to 0.
func (r *reader) open() error {
	var o minio.GetObjectOptions
	if err := r.conditions(&o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	body, info, header, err := r.s.core.GetObject(ctx, r.s.bucket, r.s.name(r.key), o)
	if err != nil {
		cancel()
		if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable && r.ctx.Err() == nil {
			r.left = 0 // the object ends at r.at or before
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

// check returns an error if a response does not match the request.
func (r *reader) check(info minio.ObjectInfo, header http.Header) error {
	from := header.Get("Content-Range")
	switch {
	case info.Size < 0:
		return fmt.Errorf("the storage at %s does not state the length of its response", r.s.Endpoint())
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
		n, err := r.readSome(p)
		if err == nil || n > 0 {
			return n, nil
		}
		if err := r.disconnected(err); err != nil {
			return 0, fmt.Errorf("reading %s at %d: %w", r.key, r.at, err)
		}
	}
}

// readSome reads from the connection. It cancels the connection if nothing arrives for
// the time s.stall.
func (r *reader) readSome(p []byte) (int, error) {
	r.watch.Reset(r.s.stall)
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.watch.Stop()
	r.at, r.left, r.received = r.at+int64(n), r.left-int64(n), r.received+int64(n)
	return n, err
}

// disconnected closes a broken connection, so that Read opens the next one. It
// returns an error after too many breaks.
func (r *reader) disconnected(cause error) error {
	r.drop()
	if r.received >= progress {
		r.broken = 0
	}
	r.received = 0
	if r.broken++; r.broken > maxBreaks {
		return fmt.Errorf("the storage at %s broke off %d times: %w", r.s.Endpoint(), r.broken, cause)
	}
	return pause(r.ctx, r.broken)
}

func (r *reader) drop() {
	if r.body != nil {
		r.cancel()
		_ = r.body.Close() // nothing was written to it
		r.body = nil
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.drop()
	r.left = 0
	return nil
}

// pause waits a random time with a limit that grows with try, up to 2 s. It returns the
// cause of ctx if ctx ends first.
func pause(ctx context.Context, try int) error {
	select {
	case <-time.After(rand.N(min(50*time.Millisecond<<try, 2*time.Second))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
