// Package blob is the port for object storage.
//
// Objects are immutable, have a key, and are written once, as a whole or not at
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
	// ErrDamaged reports that an object is not the one that was stored and that
	// its content is lost. Failures that may be temporary are other errors.
	ErrDamaged = errors.New("blob: object is damaged")
)

// Info describes an object.
type Info struct {
	Key  string
	Size int64 // bytes
}

// Usage is the number and size of the objects that an organisation stores.
type Usage struct {
	Bytes   int64
	Objects int64
}

// Store stores immutable objects. A key is a slash-separated path of at most 512
// bytes. Its elements consist of [a-z0-9._-], have at most 200 bytes, and are not
// "." or "..". Methods return an error for any other key and do nothing (see
// CheckKey). The keys "a" and "a/b" can both exist.
//
// Every method is safe for concurrent use and returns when ctx is done.
type Store interface {
	// Put stores the bytes of r under key, durably, or stores nothing: there is
	// no object after r fails, ctx is done, the process crashes, or r has other
	// than size bytes (if size >= 0). If key exists, Put returns ErrExists and
	// does not change the object.
	Put(ctx context.Context, key string, r io.Reader, size int64) error
	// Get returns a reader of n bytes from offset; n < 0 reads to the end. The
	// reader returns fewer bytes only if the object ends. The caller closes it. If
	// there is no object, Get returns ErrNotFound. A negative offset is an error.
	Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error)
	// Stat returns the object's size, or ErrNotFound. If the damage of an object
	// is visible without reading it, Stat returns ErrDamaged and the stored size.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes the object. It returns nil if there is none.
	Delete(ctx context.Context, key string) error
	// List walks the objects with keys that start with prefix, including damaged
	// ones, in key order. It ends after an error.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// Presigner is an optional interface of a Store. Clients can read its objects by
// signed links, without a request to this server.
type Presigner interface {
	// PresignGet returns a URL that serves the object by GET, with and without
	// Range, for ttl, which is 1 second to 7 days. The response has fileName in
	// Content-Disposition, as an attachment, and contentType in Content-Type,
	// unless they are empty. PresignGet does not check that the object exists.
	PresignGet(ctx context.Context, key, fileName, contentType string, ttl time.Duration) (string, error)
}
