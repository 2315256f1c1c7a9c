package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// probePrefix begins the names of objects that try a bucket out. They do not
// end like an object's name, so nothing else sees them.
const probePrefix = "stint-probe-"

// probeLimit bounds the trial.
const probeLimit = time.Minute

var errOverwrites = errors.New("it does not honour 'If-None-Match: *', without which two servers could overwrite each other's objects; use a storage that has conditional writes")

// probe finds out whether the bucket can be written, once only, read, listed
// and deleted from.
func (s *Store) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("the storage at %s did not answer within %s", s.Endpoint(), probeLimit))
	defer cancel()
	p := &putting{s: s, name: s.prefix + probePrefix + strings.ToLower(rand.Text()), mark: rand.Text()}
	err := p.try(ctx)
	if removed := s.remove(context.WithoutCancel(ctx), p.name); removed != nil && err == nil {
		err = fmt.Errorf("deleting an object: %w", removed)
	}
	if err != nil {
		return fmt.Errorf("the storage %s at %s cannot be used: %w", s.Bucket(), s.Endpoint(), err)
	}
	return nil
}

func (p *putting) try(ctx context.Context) error {
	if err := p.whole(ctx, []byte(p.mark)); err != nil {
		return fmt.Errorf("writing an object: %w", err)
	}
	if err := p.readBack(ctx); err != nil {
		return fmt.Errorf("reading an object: %w", err)
	}
	for o, err := range p.s.names(ctx, p.name) {
		if err != nil {
			return fmt.Errorf("listing objects: %w", err)
		}
		if o.Key != p.name {
			return fmt.Errorf("listing objects: it gave '%s' for the prefix '%s'", o.Key, p.name)
		}
	}
	if err := p.writeTwice(ctx); err != nil {
		return fmt.Errorf("writing an object that exists: %w", err)
	}
	if err := p.uploadTwice(ctx); err != nil {
		return fmt.Errorf("completing the upload of an object that exists: %w", err)
	}
	return nil
}

func (p *putting) readBack(ctx context.Context) error {
	body, _, _, err := p.s.core.GetObject(ctx, p.s.bucket, p.name, minio.GetObjectOptions{})
	if err != nil {
		return p.s.explain(ctx, err)
	}
	got, err := io.ReadAll(io.LimitReader(body, 1024))
	if err := errors.Join(err, body.Close()); err != nil {
		return p.s.explain(ctx, err)
	}
	if string(got) != p.mark {
		return errors.New("it holds other bytes than were written")
	}
	return nil
}

func (p *putting) writeTwice(ctx context.Context) error {
	content := []byte("again")
	_, err := p.s.core.PutObject(ctx, p.s.bucket, p.name, bytes.NewReader(content), int64(len(content)), "", sum(content), createOnly())
	return p.wantTaken(ctx, err)
}

func (p *putting) uploadTwice(ctx context.Context) error {
	u, err := p.begin(ctx)
	if err != nil {
		return err
	}
	if err = u.part(ctx, []byte("again")); err == nil {
		err = p.wantTaken(ctx, u.complete(ctx))
	}
	return errors.Join(err, u.abort(ctx))
}

func (p *putting) wantTaken(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return errOverwrites
	case taken(err):
		return nil
	}
	return p.s.explain(ctx, err)
}
