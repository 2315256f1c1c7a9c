package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
	"github.com/stint-dev/stint/internal/blob"
	"golang.org/x/sync/errgroup"
)

const (
	// markKey is the metadata key of upload.mark.
	markKey = "Stint-Put"
	// maxParts is the S3 limit on the parts of an object.
	maxParts = 10_000
	// maxConflicts is the maximum number of attempts to commit an object while other
	// writers write or delete an object with the same name.
	maxConflicts = 5
)

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
	if size > s.maxSize() {
		return fmt.Errorf("it has %d bytes, more than the limit of %d", size, s.maxSize())
	}
	first := make([]byte, s.firstRead(size))
	n, ended, err := fill(ctx, r, first)
	if err != nil {
		return err
	}
	u := &upload{s: s, name: s.name(key), mark: rand.Text()}
	switch {
	case !fits(int64(n), ended, size):
		return wrongSize(size)
	case ended:
		return u.commit(ctx, func(ctx context.Context) error { return u.putWhole(ctx, first[:n]) })
	}
	// Check whether the name is taken before sending the bytes.
	if _, err := s.Stat(ctx, key); err == nil {
		return blob.ErrExists
	} else if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	if err := u.begin(ctx); err != nil {
		return err
	}
	if err = u.putParts(ctx, first, r, size); err == nil {
		err = u.commit(ctx, u.complete)
	}
	if err != nil {
		return errors.Join(err, u.abort(ctx))
	}
	return nil
}

func (s *Store) maxSize() int64 { return int64(s.partSize) * maxParts }

// firstRead returns the number of bytes to read before choosing between one request and
// a multipart upload. If the size is known and at most two parts, firstRead returns one
// byte more than the size, so that longer content is noticed.
func (s *Store) firstRead(size int64) int {
	if size >= 0 && size <= int64(2*s.partSize) {
		return int(size) + 1
	}
	return s.partSize
}

// fits reports whether content can have the given size if n bytes of it were read. ended
// is true if these are all bytes. Any content fits a negative size.
func fits(n int64, ended bool, size int64) bool {
	return size < 0 || n == size || n < size && !ended
}

// fill reads until buf is full, the content ends, or ctx is done.
func fill(ctx context.Context, r io.Reader, buf []byte) (n int, ended bool, err error) {
	n, err = blob.ReadFull(blob.ContextReader(ctx, r), buf)
	if err == io.EOF { //nolint:errorlint // a wrapped io.EOF is a failure of the reader
		return n, true, nil
	}
	return n, false, err
}

func wrongSize(size int64) error {
	return fmt.Errorf("the content does not have the promised %d bytes", size)
}

// upload creates one object, by one request or by a multipart upload.
type upload struct {
	s    *Store
	name string
	mark string // random text stored with the object, by which commit recognizes it
	id   string // of the multipart upload
	done []minio.CompletePart
}

// createOnly returns options under which the server refuses to overwrite.
func createOnly() minio.PutObjectOptions {
	// The signature includes the hash of the body, so the library need not sign
	// the body in pieces.
	o := minio.PutObjectOptions{DisableContentSha256: true}
	o.SetMatchETagExcept("*")
	return o
}

func hexSum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// putWhole creates the object in one request.
func (u *upload) putWhole(ctx context.Context, content []byte) error {
	o := createOnly()
	o.UserMetadata = map[string]string{markKey: u.mark}
	_, err := u.s.core.PutObject(ctx, u.s.bucket, u.name, bytes.NewReader(content), int64(len(content)), "", hexSum(content), o)
	return err
}

// begin starts a multipart upload. If the response breaks off, the library does not send
// the request again, so begin does. The upload that the server may have started for the
// first request is abandoned.
func (u *upload) begin(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for try := 1; ; try++ {
		var err error
		o := minio.PutObjectOptions{UserMetadata: map[string]string{markKey: u.mark}}
		if u.id, err = u.s.core.NewMultipartUpload(limited, u.s.bucket, u.name, o); err == nil {
			return nil
		}
		if !brokeOff(err) || try == maxBreaks || pause(ctx, try) != nil {
			return u.s.explain(ctx, err)
		}
	}
}

// putParts sends full, the first part, and then the rest of r in parts. It reads each
// part while the previous part is sent.
func (u *upload) putParts(ctx context.Context, full []byte, r io.Reader, size int64) error {
	next := make([]byte, len(full))
	total := int64(len(full))
	for ended := false; len(full) > 0; {
		var n int
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return u.putPart(gctx, full) })
		g.Go(func() (err error) {
			if !ended {
				n, ended, err = fill(gctx, r, next)
			}
			return err
		})
		if err := g.Wait(); err != nil {
			return err
		}
		if total += int64(n); !fits(total, ended, size) {
			return wrongSize(size)
		}
		full, next = next[:n], full[:cap(full)]
	}
	return nil
}

func (u *upload) putPart(ctx context.Context, content []byte) error {
	number := len(u.done) + 1
	if number > maxParts {
		return fmt.Errorf("it has more bytes than the limit of %d", u.s.maxSize())
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	p, err := u.s.core.PutObjectPart(limited, u.s.bucket, u.name, u.id, number, bytes.NewReader(content), int64(len(content)),
		minio.PutObjectPartOptions{Sha256Hex: hexSum(content), DisableContentSha256: true})
	if err != nil {
		return u.s.explain(ctx, err)
	}
	u.done = append(u.done, minio.CompletePart{PartNumber: number, ETag: p.ETag})
	return nil
}

// complete creates the object from its parts. It does not use the library's
// Client.PutObject, which omits the condition when it completes an upload.
func (u *upload) complete(ctx context.Context) error {
	_, err := u.s.core.CompleteMultipartUpload(ctx, u.s.bucket, u.name, u.id, u.done, createOnly())
	return err
}

// abort deletes the multipart upload and its parts, even if ctx is done. An
// upload that no longer exists is not an error.
func (u *upload) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	err := u.s.core.AbortMultipartUpload(ctx, u.s.bucket, u.name, u.id)
	if err == nil || isTaken(err) {
		return nil
	}
	return fmt.Errorf("dropping its upload: %w", u.s.explain(ctx, err))
}

// commit calls send, which creates the object, and returns nil if this upload created
// it. If a response is lost, the library sends the request again, and the server refuses
// the second request because the object exists. Therefore, if an error does not prove
// that the request had no effect (isRefused), commit compares the mark of the stored
// object with u.mark.
func (u *upload) commit(ctx context.Context, send func(context.Context) error) error {
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
		if isRefused(err) {
			return u.s.explain(ctx, err)
		}
		mark, unknown := u.storedMark(ctx)
		switch {
		case unknown == nil && mark == u.mark:
			return nil
		case unknown == nil:
			return blob.ErrExists
		}
		// The object of another writer may not be visible yet, or was deleted.
		invisible := isTaken(err) && errors.Is(unknown, blob.ErrNotFound)
		if !isConflict(err) && !invisible || try == maxConflicts || pause(ctx, try) != nil {
			return u.s.explain(ctx, err)
		}
	}
}

// storedMark returns the mark of the object in the bucket. It also works if ctx is done.
func (u *upload) storedMark(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	info, err := u.s.head(ctx, u.name)
	return info.UserMetadata[markKey], err
}
