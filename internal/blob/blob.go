// Package blob answers: where do bytes rest?
//
// It is a port: immutable objects under keys, written once, whole or not at
// all. The adapters localfs and s3 pass the suite in blobtest.
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
	// ErrDamaged says that an object is not what was put: what it held is lost.
	// What may be read again some day is another error.
	ErrDamaged = errors.New("blob: object is damaged")
)

// Info describes an object.
type Info struct {
	Key  string
	Size int64 // bytes
}

// Usage is what an organisation keeps in a store.
type Usage struct {
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
	// Stat gives the object's size, or ErrNotFound. With ErrDamaged, where that
	// shows already, it gives the bytes that the object takes.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes the object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// List walks the objects whose keys start with prefix, in key order, damaged
	// ones too. An error ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// Presigner is what a Store may offer beyond: links by which anybody who has
// them reads an object from the storage itself.
type Presigner interface {
	// PresignGet gives a URL that answers GET, with and without Range, with the
	// object's bytes for ttl, 1 second to 7 days. Where fileName and contentType
	// are not empty, the answer has them in Content-Disposition, as an
	// attachment, and Content-Type. Whether the object exists is not looked at.
	PresignGet(ctx context.Context, key, fileName, contentType string, ttl time.Duration) (string, error)
}
