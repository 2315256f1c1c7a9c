package image_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/stint-dev/stint/internal/image"
	"github.com/stint-dev/stint/internal/image/imagetest"
)

// gate blocks requests to a registry for blobs until open is closed. It counts these
// requests in blobs, and sends to arrived for each of them.
type gate struct {
	open    chan struct{}
	arrived chan struct{}
	blobs   atomic.Int64
}

func newGate() *gate { return &gate{open: make(chan struct{}), arrived: make(chan struct{}, 1000)} }

func (g *gate) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			g.blobs.Add(1)
			g.arrived <- struct{}{}
			select {
			case <-g.open:
			case <-r.Context().Done():
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

func TestCallersShareOnePull(t *testing.T) {
	t.Parallel()
	g := newGate()
	host := imagetest.Serve(t, g.wrap)
	ref, _ := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Config{Dir: dir, KeepBytes: 1})
	firstCtx, cancelFirst := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := s.Acquire(firstCtx, ref, nil)
		returned <- err
	}()
	<-g.arrived
	var wg sync.WaitGroup
	roots := make([]*image.Root, 20)
	for i := range roots {
		wg.Go(func() {
			r, err := s.Acquire(t.Context(), ref, nil)
			if err != nil {
				t.Error(err)
				return
			}
			roots[i] = r
		})
	}
	for image.Waiting(s) < len(roots)+1 {
		runtime.Gosched()
	}
	cancelFirst()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	close(g.open)
	wg.Wait()
	if n := g.blobs.Load(); n != 2 {
		t.Errorf("%d blobs were fetched, want 2: the configuration and one layer", n)
	}
	for i, r := range roots {
		if err := s.Collect(t.Context()); err != nil || text(t, r) != "one" {
			t.Fatalf("after %d of %d releases, the file is missing or Collect failed: %v", i, len(roots), err)
		}
		r.Release()
	}
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := list(t, dir, "roots"); len(left) > 0 {
		t.Errorf("roots after the last release: %v", left)
	}
}

func TestPullEndsWithLastCaller(t *testing.T) {
	t.Parallel()
	g := newGate()
	host := imagetest.Serve(t, g.wrap)
	ref, _ := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Config{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, ref, nil)
		returned <- err
	}()
	<-g.arrived
	cancel()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	close(g.open)
	if r := acquire(t, s, ref); text(t, r) != "one" {
		t.Errorf("got %q", text(t, r))
	}
	s.Close()
	if left := list(t, dir, "work"); len(left) > 0 {
		t.Errorf("temporary files after Close: %v", left)
	}
	if _, err := s.Acquire(t.Context(), ref, nil); err == nil {
		t.Error("a closed store returned an image")
	}
}

func TestCloseEndsPulls(t *testing.T) {
	t.Parallel()
	g := newGate()
	host := imagetest.Serve(t, g.wrap)
	ref, _ := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
	s := open(t, image.Config{})
	returned := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), ref, nil)
		returned <- err
	}()
	<-g.arrived
	s.Close()
	if err := <-returned; err == nil {
		t.Error("Acquire succeeded after Close")
	}
}
