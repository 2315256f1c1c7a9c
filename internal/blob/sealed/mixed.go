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

// Mixed is one store of two: what is put goes to Primary, what Secondary holds stays
// readable. With it encryption is switched on, or off, for an installation that
// has objects already, and with the two the other way round some objects are
// encrypted and others are not. An object is looked for in Primary first. It is
// safe for concurrent use; two that disagree on which is which may put one key
// into both, and both are then one object.
type Mixed struct {
	Primary, Secondary blob.Store
	// Unique tells keys that are never used twice: Put does not look for them in
	// Secondary. nil is none.
	Unique func(key string) bool
}

var _ blob.Store = Mixed{}

// WithLinks is the store with the links that Primary gives, where it gives any, to
// what Primary holds.
func (m Mixed) WithLinks() blob.Store {
	if p, ok := m.Primary.(blob.Presigner); ok {
		return linked{m, p}
	}
	return m
}

type linked struct {
	Mixed
	links blob.Presigner
}

// PresignGet implements blob.Presigner. What Primary lacks is blob.ErrNotFound.
func (l linked) PresignGet(ctx context.Context, key, fileName, contentType string, ttl time.Duration) (string, error) {
	if _, err := l.Primary.Stat(ctx, key); err != nil {
		return "", err
	}
	return l.links.PresignGet(ctx, key, fileName, contentType, ttl)
}

// Put implements blob.Store.
func (m Mixed) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
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

// List implements blob.Store: it merges two lists in key order.
func (m Mixed) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		next, stop := iter.Pull2(m.Secondary.List(ctx, prefix))
		defer stop()
		older, olderErr, more := next()
		for info, err := range m.Primary.List(ctx, prefix) {
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
