package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
	"github.com/stint-dev/stint/internal/blob"
)

// mark is the metadata by which a Put knows its own object.
const mark = "Stint-Put"

// maxParts is how many parts an object may have.
const maxParts = 10_000

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if err := s.put(ctx, key, r, size); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, size int64) error {
	if size > int64(s.partSize)*maxParts {
		return fmt.Errorf("it has %d bytes, more than the %d that an object may have", size, int64(s.partSize)*maxParts)
	}
	src := &source{ctx: ctx, r: r}
	first := make([]byte, s.firstRead(size))
	n, ended, err := src.fill(first)
	if err != nil {
		return err
	}
	p := &putting{s: s, name: s.name(key), mark: rand.Text()}
	switch {
	case size >= 0 && (int64(n) > size || ended && int64(n) < size):
		return wrongSize(size)
	case ended:
		return p.whole(ctx, first[:n])
	default:
		return p.parts(ctx, key, first, src, size)
	}
}

// firstRead is how many bytes decide between one request and a multipart
// upload: one more than the object has where that is known and little.
func (s *Store) firstRead(size int64) int {
	if size >= 0 && size <= int64(2*s.partSize) {
		return int(size) + 1
	}
	return s.partSize
}

func wrongSize(size int64) error {
	return fmt.Errorf("the content does not have the promised %d bytes", size)
}

// source reads until its context ends.
type source struct {
	ctx context.Context
	r   io.Reader
}

// fill reads until buf is full or the content ends, and tells which.
func (s *source) fill(buf []byte) (n int, ended bool, err error) {
	for idle := 0; n < len(buf); {
		if s.ctx.Err() != nil {
			return n, false, context.Cause(s.ctx)
		}
		m, err := s.r.Read(buf[n:])
		n += m
		switch idle++; {
		case err == io.EOF: // one that is wrapped is a fault of the reader
			return n, true, nil
		case err != nil:
			return n, false, err
		case m > 0:
			idle = 0
		case idle == 100:
			return n, false, io.ErrNoProgress
		}
	}
	return n, false, nil
}

// putting is one Put.
type putting struct {
	s    *Store
	name string
	mark string
}

// createOnly are the conditions of a commit.
func createOnly() minio.PutObjectOptions {
	// The body's hash is in the signature, so the library need not sign it in
	// pieces.
	o := minio.PutObjectOptions{DisableContentSha256: true}
	o.SetMatchETagExcept("*")
	return o
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// whole stores content in one request.
func (p *putting) whole(ctx context.Context, content []byte) error {
	o := createOnly()
	o.UserMetadata = map[string]string{mark: p.mark}
	hash := sum(content)
	return p.commit(ctx, func(ctx context.Context) error {
		_, err := p.s.core.PutObject(withContent(ctx, content), p.s.bucket, p.name, bytes.NewReader(content), int64(len(content)), "", hash, o)
		return err
	})
}

// conflicts is how often a commit is tried that others are in the way of.
const conflicts = 5

// commit sends what makes the object and finds out whether it did: a repetition
// whose forerunner had won is told that the object exists.
func (p *putting) commit(ctx context.Context, send func(context.Context) error) error {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		limited, cancel := context.WithTimeout(ctx, callLimit)
		err := send(limited)
		cancel()
		if err == nil {
			return nil
		}
		if refused(err) {
			return p.s.explain(ctx, err)
		}
		holder, unknown := p.holder(ctx)
		switch {
		case unknown == nil && holder == p.mark:
			return nil
		case unknown == nil:
			return blob.ErrExists
		case !conflicting(err) || try == conflicts || pause(ctx, try) != nil:
			return p.s.explain(ctx, err)
		}
	}
}

// holder gives the mark of the object that has the name. It looks even where
// the caller has given up.
func (p *putting) holder(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	info, err := p.s.head(ctx, p.name)
	return info.UserMetadata[mark], err
}
