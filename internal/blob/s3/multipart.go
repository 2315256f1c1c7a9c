package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"
	"github.com/stint-dev/stint/internal/blob"
	"golang.org/x/sync/errgroup"
)

// parts stores first and what src still has in a multipart upload, which is
// aborted where anything fails. A name that is taken is found out before the
// bytes travel.
func (p *putting) parts(ctx context.Context, key string, first []byte, src *source, size int64) error {
	if _, err := p.s.Stat(ctx, key); err == nil {
		return blob.ErrExists
	} else if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	u, err := p.begin(ctx)
	if err != nil {
		return err
	}
	if err = u.send(ctx, first, src, size); err == nil {
		err = p.commit(ctx, u.complete)
	}
	if err != nil {
		return errors.Join(err, u.abort(ctx))
	}
	return nil
}

// upload is a multipart upload that was begun.
type upload struct {
	s    *Store
	name string
	id   string
	done []minio.CompletePart
}

// begin opens an upload, another one where the answer broke off: the library
// repeats requests, not the reading of what they gave. The first is abandoned.
func (p *putting) begin(ctx context.Context) (*upload, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for try := 1; ; try++ {
		id, err := p.s.core.NewMultipartUpload(limited, p.s.bucket, p.name, minio.PutObjectOptions{UserMetadata: map[string]string{mark: p.mark}})
		if err == nil {
			return &upload{s: p.s, name: p.name, id: id}, nil
		}
		if !brokeOff(err) || try == breaks || pause(ctx, try) != nil {
			return nil, p.s.explain(ctx, err)
		}
	}
}

// send stores the parts, reading one while the one before it travels.
func (u *upload) send(ctx context.Context, full []byte, src *source, size int64) error {
	next := make([]byte, len(full))
	total := int64(len(full))
	for ended := false; len(full) > 0; {
		var n int
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return u.part(gctx, full) })
		g.Go(func() (err error) {
			if !ended {
				n, ended, err = (&source{ctx: gctx, r: src.r}).fill(next)
			}
			return err
		})
		if err := g.Wait(); err != nil {
			return err
		}
		if total += int64(n); size >= 0 && (total > size || ended && total < size) {
			return wrongSize(size)
		}
		full, next = next[:n], full[:cap(full)]
	}
	return nil
}

func (u *upload) part(ctx context.Context, content []byte) error {
	number := len(u.done) + 1
	if number > maxParts {
		return fmt.Errorf("it has more than the %d bytes that an object may have", int64(u.s.partSize)*maxParts)
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	p, err := u.s.core.PutObjectPart(withContent(limited, content), u.s.bucket, u.name, u.id, number, bytes.NewReader(content), int64(len(content)),
		minio.PutObjectPartOptions{Sha256Hex: sum(content), DisableContentSha256: true})
	if err != nil {
		return u.s.explain(ctx, err)
	}
	u.done = append(u.done, minio.CompletePart{PartNumber: number, ETag: p.ETag})
	return nil
}

func (u *upload) complete(ctx context.Context) error {
	_, err := u.s.core.CompleteMultipartUpload(ctx, u.s.bucket, u.name, u.id, u.done, createOnly())
	return err
}

// abort drops the upload with its parts, also where the caller has given up.
// One that is over already is no error.
func (u *upload) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	err := u.s.core.AbortMultipartUpload(ctx, u.s.bucket, u.name, u.id)
	if err == nil || taken(err) {
		return nil
	}
	return fmt.Errorf("dropping its upload: %w", u.s.explain(ctx, err))
}
