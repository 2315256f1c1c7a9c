package content_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/content"
)

// benchTree is a source tree: many small files that compress, and a large one
// that does not.
func benchTree(b *testing.B) (l *content.Library, dir string, ref content.Ref) {
	b.Helper()
	s, err := localfs.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	l = newLibrary(b, s, content.Options{})
	dir = b.TempDir()
	for i := range 2000 {
		write(b, dir, map[string]string{fmt.Sprintf("d%d/f%d", i%40, i): string(text(byte(i), 2000+i*7))})
	}
	write(b, dir, map[string]string{"large": string(noise(1, 32<<20))})
	ref, err = l.FromDir(b.Context(), org, "", dir, content.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return l, dir, ref
}

func BenchmarkFromDir(b *testing.B) {
	l, dir, ref := benchTree(b)
	for name, parent := range map[string]string{"first": "", "unchanged": ref.Digest} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(ref.Size)
			for b.Loop() {
				if _, err := l.FromDir(b.Context(), org, parent, dir, content.DirOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDownload(b *testing.B) {
	l, _, ref := benchTree(b)
	for _, f := range []content.Format{content.TarGzip, content.Zip, content.Tar, content.TarZstd} {
		b.Run(string(f), func(b *testing.B) {
			b.SetBytes(ref.Size)
			for b.Loop() {
				if f == content.TarZstd {
					if err := l.WriteZstd(b.Context(), org, ref.Digest, io.Discard); err != nil {
						b.Fatal(err)
					}
					continue
				}
				d, err := l.Download(b.Context(), org, ref.Digest, f)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, struct{ io.Reader }{d}); err != nil {
					b.Fatal(err)
				}
				d.Close()
			}
		})
	}
}

func BenchmarkCheckout(b *testing.B) {
	l, _, ref := benchTree(b)
	b.SetBytes(ref.Size)
	for b.Loop() {
		if err := l.Checkout(b.Context(), org, ref.Digest, b.TempDir()); err != nil {
			b.Fatal(err)
		}
	}
}
