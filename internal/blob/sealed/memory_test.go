package sealed_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
)

// memory is a store in memory that allows tests to change objects. It is not safe for
// concurrent use.
type memory struct{ objects map[string][]byte }

func newMemory() *memory { return &memory{map[string][]byte{}} }

func (m *memory) Put(_ context.Context, key string, r io.Reader, size int64) error {
	if _, ok := m.objects[key]; ok {
		return blob.ErrExists
	}
	b, err := io.ReadAll(r)
	if err == nil && size >= 0 && int64(len(b)) != size {
		err = fmt.Errorf("%d bytes instead of %d", len(b), size)
	}
	if err == nil {
		m.objects[key] = b
	}
	return err
}

func (m *memory) Get(_ context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	b, ok := m.objects[key]
	if !ok {
		return nil, blob.ErrNotFound
	}
	b = b[min(offset, int64(len(b))):]
	if n >= 0 && n < int64(len(b)) {
		b = b[:n]
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memory) Stat(_ context.Context, key string) (blob.Info, error) {
	b, ok := m.objects[key]
	if !ok {
		return blob.Info{}, blob.ErrNotFound
	}
	return blob.Info{Key: key, Size: int64(len(b))}, nil
}

func (m *memory) Delete(_ context.Context, key string) error {
	delete(m.objects, key)
	return nil
}

func (m *memory) List(_ context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(m.objects)) {
			if strings.HasPrefix(key, prefix) && !yield(blob.Info{Key: key, Size: int64(len(m.objects[key]))}, nil) {
				return
			}
		}
	}
}
