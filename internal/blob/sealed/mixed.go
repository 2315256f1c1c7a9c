package sealed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/blob"
)

// Mixed combines an encrypted and a plain store. New objects are stored in
// Primary, and existing objects in Secondary stay readable. Reads try Primary
// first. With Mixed, an installation that has objects can enable or disable
// encryption, and can encrypt only some objects.
//
// Mixed is safe for concurrent use. If the Primary of one instance is the Secondary of
// another, and both put the same key at the same time, then both stores contain the key,
// and it counts as one object.
type Mixed struct {
	Primary, Secondary blob.Store
	// Unique reports whether a key is put only once, so that Put need not look
	// for it in Secondary. If Unique is nil, Put looks for every key.
	Unique func(key string) bool
}

var _ blob.Store = Mixed{}

// WithLinks returns m. If Primary implements blob.Presigner, the returned store also
// implements it, for the objects in Primary.
func (m Mixed) WithLinks() blob.Store {
	if p, ok := m.Primary.(blob.Presigner); ok {
		return presigning{m, p}
	}
	return m
}

type presigning struct {
	Mixed
	presigner blob.Presigner
}

// PresignGet implements blob.Presigner. It returns blob.ErrNotFound for an object
// that is not in Primary.
func (p presigning) PresignGet(ctx context.Context, key, fileName, contentType string, ttl time.Duration) (string, error) {
	if _, err := p.Primary.Stat(ctx, key); err != nil {
		return "", err
	}
	return p.presigner.PresignGet(ctx, key, fileName, contentType, ttl)
}

// Put implements blob.Store.
func (m Mixed) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if m.Unique != nil && m.Unique(key) {
		return m.Primary.Put(ctx, key, r, size)
	}
	if _, err := m.Secondary.Stat(ctx, key); err == nil || errors.Is(err, blob.ErrDamaged) {
		return fmt.Errorf("storing %s: %w", key, blob.ErrExists)
	} else if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return m.Primary.Put(ctx, key, r, size)
}

// Get implements blob.Store.
func (m Mixed) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	r, err := m.Primary.Get(ctx, key, offset, n)
	if errors.Is(err, blob.ErrNotFound) {
		return m.Secondary.Get(ctx, key, offset, n)
	}
	return r, err
}

// Stat implements blob.Store.
func (m Mixed) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := m.Primary.Stat(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return m.Secondary.Stat(ctx, key)
	}
	return info, err
}

// Delete implements blob.Store.
func (m Mixed) Delete(ctx context.Context, key string) error {
	if err := m.Secondary.Delete(ctx, key); err != nil {
		return err
	}
	return m.Primary.Delete(ctx, key)
}

// List implements blob.Store. It merges the lists of both stores in key order. A key
// in both stores is listed once, with the object in Primary.
func (m Mixed) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		next, stop := iter.Pull2(m.Secondary.List(ctx, prefix))
		defer stop()
		secondary, secondaryErr, more := next()
		for info, err := range m.Primary.List(ctx, prefix) {
			for more && (secondaryErr != nil || err == nil && secondary.Key < info.Key) {
				if !yield(secondary, secondaryErr) {
					return
				}
				secondary, secondaryErr, more = next()
			}
			if more && err == nil && secondary.Key == info.Key {
				secondary, secondaryErr, more = next()
			}
			if !yield(info, err) {
				return
			}
		}
		for more {
			if !yield(secondary, secondaryErr) {
				return
			}
			secondary, secondaryErr, more = next()
		}
	}
}
