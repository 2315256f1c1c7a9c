// Package localfs stores objects in a local folder.
//
// An object is written to a temporary file, synced, and linked to its final name,
// which fails if the name exists; then its folder is synced. So an object exists
// as a whole and durably, or not at all. Files have mode 0600, folders 0700.
package localfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
)

const (
	objects   = "objects" // the folder of finished objects
	temporary = "tmp"     // the folder of unfinished objects
	// suffix ends the file names of objects. It is not allowed in keys, so the
	// file of the object "a" and the folder of "a/b" have different names.
	suffix = "@"
)

// Store is a blob.Store in a folder. Several processes can use the same folder.
type Store struct {
	root *os.Root

	mu      sync.Mutex      // guards durable
	durable map[string]bool // folders that exist durably
}

var _ blob.Store = (*Store)(nil)

// Open returns a store in dir. It creates dir if it is missing and removes
// temporary files of crashed writers. The caller closes the store.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the object folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the object folder: %w", err)
	}
	s := &Store{root: root, durable: map[string]bool{}}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

func (s *Store) prepare() error {
	for _, d := range []string{objects, temporary} {
		if err := s.ensureDir(d); err != nil {
			return err
		}
	}
	return s.sweep()
}

// Close releases the folder. Open readers stay usable.
func (s *Store) Close() error { return s.root.Close() }

// name returns the file name of the object with a valid key.
func name(key string) string { return objects + "/" + key + suffix }

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if _, err := s.Stat(ctx, key); err == nil {
		return fmt.Errorf("storing %s: %w", key, blob.ErrExists)
	} else if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	if err := s.put(ctx, key, r, size); err != nil {
		return fmt.Errorf("storing %s: %w", key, userError(err))
	}
	return nil
}

// userError returns an error with a message for the user if the disk is full, and
// otherwise err.
func userError(err error) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "The disk that files are stored on is full. Try again after the operator has freed space.",
	}
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, size int64) (err error) {
	temp := temporary + "/" + strings.ToLower(rand.Text())
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.root.Remove(temp), f.Close()) }()
	if err := lock(f); err != nil {
		return err
	}
	if err := fill(ctx, f, r, size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return s.publish(temp, name(key))
}

// fill copies r to f. It returns an error if ctx ends, or if size is not negative and r
// does not have size bytes.
func fill(ctx context.Context, f *os.File, r io.Reader, size int64) error {
	limited := r
	if size >= 0 && size < 1<<62 {
		limited = io.LimitReader(r, size+1)
	}
	n, err := io.Copy(f, blob.ContextReader(ctx, limited))
	if err != nil {
		return err
	}
	if size >= 0 && n != size {
		return fmt.Errorf("the content does not have the promised %d bytes", size)
	}
	return nil
}

// publish durably links the synced file temp to the name final. If final exists, publish
// returns blob.ErrExists.
func (s *Store) publish(temp, final string) error {
	dir := path.Dir(final)
	if err := s.ensureDir(dir); err != nil {
		return err
	}
	if err := s.root.Link(temp, final); errors.Is(err, fs.ErrExist) {
		return blob.ErrExists
	} else if err != nil {
		return err
	}
	if err := s.syncDir(dir); err != nil {
		return errors.Join(err, s.root.Remove(final))
	}
	return nil
}

// ensureDir durably creates dir and its parents. After the creation of a folder it syncs
// the parent folder, because otherwise a power loss could remove the new folder with its
// objects.
func (s *Store) ensureDir(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir == "." || s.durable[dir] {
		return nil
	}
	for at, c := range dir + "/" {
		if c != '/' || s.durable[dir[:at]] {
			continue
		}
		if err := s.root.Mkdir(dir[:at], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := s.syncDir(path.Dir(dir[:at])); err != nil {
			return err
		}
		s.durable[dir[:at]] = true
	}
	return nil
}

func (s *Store) syncDir(dir string) error {
	d, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, fmt.Errorf("reading %s: the offset %d is negative", key, offset)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, err := s.root.Open(name(key))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, storeError(err))
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", key, err), f.Close())
	}
	limited := io.Reader(f)
	if n >= 0 {
		limited = io.LimitReader(f, n)
	}
	return object{blob.ContextReader(ctx, limited), f}, nil
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	if ctx.Err() != nil {
		return blob.Info{}, context.Cause(ctx)
	}
	info, err := s.root.Lstat(name(key))
	if err != nil {
		return blob.Info{}, fmt.Errorf("looking at %s: %w", key, storeError(err))
	}
	return blob.Info{Key: key, Size: info.Size()}, nil
}

// Delete implements blob.Store. It does not remove the folders of the object.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.root.Remove(name(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting %s: %w", key, err)
	}
	return nil
}

// storeError replaces fs.ErrNotExist by blob.ErrNotFound.
func storeError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return blob.ErrNotFound
	}
	return err
}

// object reads a range of an open object.
type object struct {
	io.Reader
	io.Closer
}
