package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/files"
)

// TestDottedTargetsAreCheap checks that the number of lookups for a symbolic link is
// limited by the number of names in its target, even if the link is in a deep folder.
func TestDottedTargetsAreCheap(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", 250) + "l"
	for _, c := range []struct {
		name, target string
		most         int
	}{
		{"up and down", strings.Repeat("x/../", 800), 800},
		{"far down, then up", strings.Repeat("x/", 400) + strings.Repeat("../", 400), 400},
		{"out of its folder, then down and up", strings.Repeat("../", 200) + strings.Repeat("x/y/../", 400), 800},
	} {
		if n := files.DottedLookups(deep, c.target); n == 0 || n > c.most {
			t.Errorf("%s: %d lookups", c.name, n)
		}
		if err := files.CheckDotted(t.Context(), t.TempDir(), deep, c.target); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := files.CheckDotted(ctx, t.TempDir(), deep, c.target); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, after a cancellation: %v", c.name, err)
		}
	}
}

// TestRootSizeLimit checks that each kind of commit refuses a tree whose root, which
// lists its pages, exceeds the size limit.
func TestRootSizeLimit(t *testing.T) {
	t.Parallel()
	var items []item
	for i := range 2000 {
		items = append(items, item{name: fmt.Sprintf("%s-%04d", strings.Repeat("d", 200), i)})
	}
	archive := tarOf(t, items...)
	dir := t.TempDir()
	for _, i := range items {
		if err := os.WriteFile(filepath.Join(dir, i.name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := newMemory()
	roomy := newLibrary(t, from, files.Options{Limits: files.Limits{RootBytes: 4000}})
	ref := stored(t, roomy, "", items...) // the root is smaller than this larger limit
	if _, err := roomy.Pages(t.Context(), org, ref.Digest); err != nil {
		t.Fatal(err)
	}
	var tree bytes.Buffer
	if err := roomy.WriteTree(t.Context(), org, ref.Digest, &tree); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]func(*files.Library) (files.Ref, error){
		"archive": func(l *files.Library) (files.Ref, error) {
			return l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(archive))
		},
		"folder": func(l *files.Library) (files.Ref, error) {
			return l.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
		},
		"entries": func(l *files.Library) (files.Ref, error) {
			return l.CommitEntries(t.Context(), org, "", &tree)
		},
	} {
		s := newMemory()
		ref, err := store(newLibrary(t, s, files.Options{Limits: files.Limits{RootBytes: 800}}))
		wantRefused(t, ref, err, "shorter paths")
		if keys := s.keys(); len(keys) > 0 {
			t.Errorf("%s: the store contains %q", name, keys)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	sized := func(n, size int) []byte {
		items := make([]item, n)
		for i := range items {
			items[i] = item{name: strings.Repeat("x", i+1), body: noise(byte(i), size)}
		}
		return tarOf(t, items...)
	}
	zeros := tarOf(t, item{name: "zeros", body: make([]byte, 8<<20)})
	links := func() []byte {
		h := []tar.Header{{Name: "f"}}
		for i := range 60 {
			h = append(h, tar.Header{Name: strings.Repeat("l", i+1), Typeflag: tar.TypeLink, Linkname: "f"})
		}
		return rawTar(t, h...)
	}()
	for _, c := range []struct {
		name   string
		limits files.Limits
		format files.Format
		input  []byte
		ok     bool
	}{
		{"entries met", files.Limits{Entries: 5}, files.Tar, sized(5, 1), true},
		{"entries", files.Limits{Entries: 4}, files.Tar, sized(5, 1), false},
		{"implied entries", files.Limits{Entries: 4}, files.Tar, tarOf(t, item{name: "a/b/c/d/e"}), false},
		{"entries of one path", files.Limits{Entries: 2}, files.Tar, tarOf(t, item{name: "a"}, item{name: "a"}, item{name: "a"}), false},
		{"file met", files.Limits{FileBytes: 1000}, files.Tar, sized(1, 1000), true},
		{"file", files.Limits{FileBytes: 999}, files.Tar, sized(1, 1000), false},
		{"total met", files.Limits{TotalBytes: 3000}, files.Tar, sized(3, 1000), true},
		{"total", files.Limits{TotalBytes: 2999}, files.Tar, sized(3, 1000), false},
		{"total of hard links", files.Limits{TotalBytes: 100}, files.Tar, links, false},
		{"path", files.Limits{PathBytes: 3}, files.Tar, sized(4, 1), false},
		{"depth", files.Limits{Depth: 2}, files.Tar, tarOf(t, item{name: "a/b/c"}), false},
		{"ratio below the floor", files.Limits{Ratio: 10, RatioFloor: 16 << 20}, files.TarGzip, gzipped(t, zeros), true},
		{"gzip bomb", files.Limits{Ratio: 100, RatioFloor: 1 << 20}, files.TarGzip, gzipped(t, zeros), false},
		{"zstd bomb", files.Limits{Ratio: 100, RatioFloor: 1 << 20}, files.TarZstd, zstdOf(t, zeros), false},
		{"plain tar is no bomb", files.Limits{Ratio: 2, RatioFloor: 1}, files.Tar, zeros, true},
		{"sparse bomb", files.Limits{Ratio: 100, RatioFloor: 1 << 20}, files.Tar, sparse(t, 1<<32), false},
		{"sparse file", files.Limits{}, files.Tar, sparse(t, 3<<20), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newMemory()
			l := newLibrary(t, s, files.Options{Limits: c.limits})
			ref, err := l.CommitArchive(t.Context(), org, "", c.format, bytes.NewReader(c.input))
			if c.ok {
				if err != nil {
					t.Errorf("it was refused: %v", err)
				}
				return
			}
			wantRefused(t, ref, err, "")
			if keys := s.keys(); len(keys) > 0 {
				t.Errorf("the store contains %q", keys)
			}
		})
	}
}
