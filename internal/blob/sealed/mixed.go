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

// Mixed is one store of two: what is put goes to Writes, what Older holds stays
// readable. With it encryption is switched on, or off, for an installation that
// has objects already, and with the two the other way round some objects are
// encrypted and others are not. An object is looked for in Writes first. It is
// safe for concurrent use; two that disagree on which is which may put one key
// into both, and both are then one object.
type Mixed struct {
	Writes, Older blob.Store
	// Fresh tells keys that are never used twice: Put does not look for them in
	// Older. nil is none.
	Fresh func(key string) bool
}

var _ blob.Store = Mixed{}

// Linked is the store with the links that Writes gives, where it gives any, to
// what Writes holds.
func (m Mixed) Linked() blob.Store {
	if p, ok := m.Writes.(blob.Presigner); ok {
		return linked{m, p}
	}
	return m
}

type linked struct {
	Mixed
	links blob.Presigner
}

// PresignGet implements blob.Presigner. What Writes lacks is blob.ErrNotFound.
func (l linked) PresignGet(ctx context.Context, key, fileName, contentType string, ttl time.Duration) (string, error) {
	if _, err := l.Writes.Stat(ctx, key); err != nil {
		return "", err
	}
	return l.links.PresignGet(ctx, key, fileName, contentType, ttl)
}

// Put implements blob.Store.
func (m Mixed) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if m.Fresh != nil && m.Fresh(key) {
		return m.Writes.Put(ctx, key, r, size)
	}
	if _, err := m.Older.Stat(ctx, key); err == nil || errors.Is(err, blob.ErrDamaged) {
		return fmt.Errorf("storing %s: %w", key, blob.ErrExists)
	} else if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return m.Writes.Put(ctx, key, r, size)
}

// Get implements blob.Store.
func (m Mixed) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	r, err := m.Writes.Get(ctx, key, offset, n)
	if errors.Is(err, blob.ErrNotFound) {
		return m.Older.Get(ctx, key, offset, n)
	}
	return r, err
}

// Stat implements blob.Store.
func (m Mixed) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := m.Writes.Stat(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return m.Older.Stat(ctx, key)
	}
	return info, err
}

// Delete implements blob.Store.
func (m Mixed) Delete(ctx context.Context, key string) error {
	if err := m.Older.Delete(ctx, key); err != nil {
		return err
	}
	return m.Writes.Delete(ctx, key)
}

// List implements blob.Store: it merges two lists in key order.
func (m Mixed) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		next, stop := iter.Pull2(m.Older.List(ctx, prefix))
		defer stop()
		older, olderErr, more := next()
		for info, err := range m.Writes.List(ctx, prefix) {
			for more && (olderErr != nil || err == nil && older.Key < info.Key) {
				if !yield(older, olderErr) {
					return
				}
				older, olderErr, more = next()
			}
			if more && err == nil && older.Key == info.Key {
				older, olderErr, more = next()
			}
			if !yield(info, err) {
				return
			}
		}
		for more {
			if !yield(older, olderErr) {
				return
			}
			older, olderErr, more = next()
		}
	}
}
