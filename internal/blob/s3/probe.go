package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// probePrefix begins the names of probe objects. They do not end with suffix,
// so List ignores them.
const probePrefix = "stint-probe-"

// probeLimit is the time limit of the probe.
const probeLimit = time.Minute

var errOverwrites = errors.New("it does not honour 'If-None-Match: *', without which two servers could overwrite each other's objects; use a storage that has conditional writes")

// probe checks that objects in the bucket can be created (but not replaced),
// read, listed, and deleted.
func (s *Store) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("the storage at %s did not answer within %s", s.Endpoint(), probeLimit))
	defer cancel()
	u := &upload{s: s, name: s.prefix + probePrefix + strings.ToLower(rand.Text()), mark: rand.Text()}
	err := u.probe(ctx)
	if removed := s.remove(context.WithoutCancel(ctx), u.name); removed != nil && err == nil {
		err = fmt.Errorf("deleting an object: %w", removed)
	}
	if err != nil {
		return fmt.Errorf("the storage %s at %s cannot be used: %w", s.Bucket(), s.Endpoint(), err)
	}
	return nil
}

func (u *upload) probe(ctx context.Context) error {
	create := func(ctx context.Context) error { return u.putWhole(ctx, []byte(u.mark)) }
	if err := u.commit(ctx, create); err != nil {
		return fmt.Errorf("writing an object: %w", err)
	}
	if err := u.probeRead(ctx); err != nil {
		return fmt.Errorf("reading an object: %w", err)
	}
	if err := u.probeList(ctx); err != nil {
		return fmt.Errorf("listing objects: %w", err)
	}
	if err := u.wantTaken(ctx, create(ctx)); err != nil {
		return fmt.Errorf("writing an object that exists: %w", err)
	}
	if err := u.probeParts(ctx); err != nil {
		return fmt.Errorf("completing the upload of an object that exists: %w", err)
	}
	return nil
}

func (u *upload) probeRead(ctx context.Context) error {
	body, _, _, err := u.s.core.GetObject(ctx, u.s.bucket, u.name, minio.GetObjectOptions{})
	if err != nil {
		return u.s.explain(ctx, err)
	}
	got, err := io.ReadAll(io.LimitReader(body, 1024))
	if err := errors.Join(err, body.Close()); err != nil {
		return u.s.explain(ctx, err)
	}
	if string(got) != u.mark {
		return errors.New("it holds other bytes than were written")
	}
	return nil
}

// probeList checks that the list of objects with the name as prefix contains only the
// object, which was just written.
func (u *upload) probeList(ctx context.Context) error {
	listed := false
	for o, err := range u.s.names(ctx, u.name) {
		if err != nil {
			return err
		}
		if o.Key != u.name {
			return fmt.Errorf("it gave '%s' for the prefix '%s'", o.Key, u.name)
		}
		listed = true
	}
	if !listed {
		return fmt.Errorf("it did not list the object '%s', which was just written; use a storage with consistent lists", u.name)
	}
	return nil
}

// probeParts checks that a multipart upload cannot replace the object.
func (u *upload) probeParts(ctx context.Context) error {
	if err := u.begin(ctx); err != nil {
		return err
	}
	err := u.putPart(ctx, []byte("again"))
	if err == nil {
		err = u.wantTaken(ctx, u.complete(ctx))
	}
	return errors.Join(err, u.abort(ctx))
}

func (u *upload) wantTaken(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return errOverwrites
	case isTaken(err):
		return nil
	}
	return u.s.explain(ctx, err)
}
