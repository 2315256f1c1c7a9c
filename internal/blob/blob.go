// Package blob answers: where do bytes rest?
//
// It is a port: immutable objects under keys, written once, whole or not at
// all. The adapters localfs and (later) s3 pass the suite in blobtest.
package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors that adapters return, possibly wrapped.
var (
	ErrNotFound = errors.New("blob: no such object")
	ErrExists   = errors.New("blob: object exists")
)

// Info describes an object.
type Info struct {
	Key  string
	Size int64 // bytes
}

// Used is what an organisation keeps in a store.
type Used struct {
	Bytes   int64
	Objects int64
}

// Store keeps immutable objects. Keys are slash-separated paths of
// [a-z0-9._-] elements, none of them "." or ".." or longer than 200 bytes, at
// most 512 bytes in all; another key is refused with an error and touches
// nothing (CheckKey). An object may lie under another's key: "a" beside "a/b".
//
// Every method is safe for concurrent use and stops when ctx ends.
type Store interface {
	// Put stores the bytes of r under key, durably, or stores nothing: a
	// failing r, a size that differs from size (when size >= 0), a cancelled
	// ctx or a crash leave no object. A key that exists gives ErrExists and
	// keeps what was there.
	Put(ctx context.Context, key string, r io.Reader, size int64) error
	// Get opens n bytes from offset; n < 0 reads to the end. The reader gives
	// fewer bytes only where the object ends. The caller closes it.
	Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error)
	// Stat gives the object's size, or ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes the object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// List walks the objects whose keys start with prefix, in key order.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// Presigner is a Store whose objects clients can read without us.
type Presigner interface {
	// PresignGet gives an address that serves the object for ttl, to whoever
	// has it, as a download of that name and type.
	PresignGet(ctx context.Context, key, fileName, contentType string, ttl time.Duration) (string, error)
}

// PresignerOf finds the Presigner that a store is, or that it wraps: a store
// in front of another has a method Unwrap() Store, unless it keeps something
// else than what it was given.
func PresignerOf(s Store) (Presigner, bool) {
	for s != nil {
		if p, ok := s.(Presigner); ok {
			return p, true
		}
		wrapper, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = wrapper.Unwrap()
	}
	return nil, false
}
