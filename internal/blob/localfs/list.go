package localfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
)

// List implements blob.Store. Objects that are created or deleted during the walk
// may or may not be listed.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		if !blob.CanStartKey(prefix) {
			return // no key starts with an invalid prefix, such as "../"
		}
		dir := prefix[:strings.LastIndexByte(prefix, '/')+1]
		w := walk{ctx: ctx, s: s, prefix: prefix, yield: yield}
		if err := w.folder(dir); err != nil && !errors.Is(err, errStopped) {
			yield(blob.Info{}, fmt.Errorf("listing %q: %w", prefix, err))
		}
	}
}

var errStopped = errors.New("the caller stopped")

type walk struct {
	ctx    context.Context
	s      *Store
	prefix string
	yield  func(blob.Info, error) bool
}

// folder lists the objects under dir, a key prefix that is empty or ends in a
// slash.
func (w *walk) folder(dir string) error {
	names, err := w.names(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		if strings.HasSuffix(n, "/") {
			err = w.folder(dir + n)
		} else {
			err = w.object(dir + n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names returns the names in dir that match the prefix, in key order. Names of
// folders end with a slash.
func (w *walk) names(dir string) ([]string, error) {
	d, err := w.s.root.Open(strings.TrimSuffix(objects+"/"+dir, "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		n, isObject := strings.CutSuffix(e.Name(), suffix)
		if isObject == e.IsDir() || blob.CheckKey(n) != nil {
			continue // not an object
		}
		if e.IsDir() {
			n += "/"
		}
		if full := dir + n; strings.HasPrefix(full, w.prefix) || e.IsDir() && strings.HasPrefix(w.prefix, full) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (w *walk) object(key string) error {
	info, err := w.s.Stat(w.ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil // deleted during the walk
	} else if err != nil {
		return err
	}
	if !w.yield(info, nil) {
		return errStopped
	}
	return nil
}
