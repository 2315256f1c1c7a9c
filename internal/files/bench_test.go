package files_test

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/sealing"
)

// benchTree commits a folder like a source tree: many small files that can be compressed,
// and a large file that cannot. It returns the library, the folder, and the commit.
func benchTree(b *testing.B) (l *files.Library, dir string, ref files.Ref) {
	b.Helper()
	s, err := localfs.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	l = newLibrary(b, s, files.Options{})
	dir = b.TempDir()
	for i := range 2000 {
		write(b, dir, map[string]string{fmt.Sprintf("d%d/f%d", i%40, i): string(text(byte(i), 2000+i*7))})
	}
	write(b, dir, map[string]string{"large": string(noise(1, 32<<20))})
	ref, err = l.CommitDir(b.Context(), org, "", dir, files.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return l, dir, ref
}

func BenchmarkCommitDir(b *testing.B) {
	l, dir, ref := benchTree(b)
	for name, parent := range map[string]string{"first": "", "unchanged": ref.Digest} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(ref.Size)
			for b.Loop() {
				if _, err := l.CommitDir(b.Context(), org, parent, dir, files.DirOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDownload(b *testing.B) {
	l, _, ref := benchTree(b)
	for _, f := range []files.Format{files.TarGzip, files.Zip, files.Tar, files.TarZstd} {
		b.Run(string(f), func(b *testing.B) {
			b.SetBytes(ref.Size)
			for b.Loop() {
				if f == files.TarZstd {
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

// manyFiles commits a tree of n small files, 100 in each folder.
func manyFiles(b *testing.B, n int) (*files.Library, files.Ref) {
	b.Helper()
	s, err := localfs.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	l := newLibrary(b, s, files.Options{})
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeManyFiles(w, n)) }()
	ref, err := l.CommitArchive(b.Context(), org, "", files.Tar, r)
	if err != nil {
		b.Fatal(err)
	}
	return l, ref
}

func writeManyFiles(out io.Writer, n int) error {
	buffered := bufio.NewWriterSize(out, 1<<20)
	w := tar.NewWriter(buffered)
	for i := range n {
		body := "file number " + strconv.Itoa(i)
		h := item{name: fmt.Sprintf("d%04d/some-file-%06d.txt", i/100, i), body: []byte(body)}.header()
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(w, body); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), buffered.Flush())
}

// BenchmarkCommitOverlay appends a line to one of 50,000 files and commits the change.
func BenchmarkCommitOverlay(b *testing.B) {
	l, base := manyFiles(b, 50_000)
	upper := b.TempDir()
	write(b, upper, map[string]string{"d0123/some-file-012345.txt": "file number 12345\n"})
	f, err := os.OpenFile(upper+"/d0123/some-file-012345.txt", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if _, err := fmt.Fprintln(f, "a line more"); err != nil {
			b.Fatal(err)
		}
		if _, err := l.CommitOverlay(b.Context(), org, base.Digest, upper, files.DirOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenArchive opens a download of a tree of 200,000 entries and reads 1,000 bytes
// at the start or in the middle.
func BenchmarkOpenArchive(b *testing.B) {
	l, ref := manyFiles(b, 200_000)
	for name, part := range map[string]int64{"start": 0, "middle": 2} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				a, err := l.Download(b.Context(), org, ref.Digest, files.TarGzip)
				if err != nil {
					b.Fatal(err)
				}
				if part > 0 {
					if _, err := a.Seek(a.Size()/part, io.SeekStart); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := io.ReadFull(a, make([]byte, 1000)); err != nil {
					b.Fatal(err)
				}
				a.Close()
			}
		})
	}
}

// BenchmarkConversation commits a conversation of 10 MiB to an encrypted store: a new one
// ("first"), with one more turn ("grown"), and without a change ("unchanged").
func BenchmarkConversation(b *testing.B) {
	var stores [2]*localfs.Store
	for i := range stores {
		var err error
		if stores[i], err = localfs.Open(b.TempDir()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { stores[i].Close() })
	}
	encrypted := sealed.New(stores[1], oneKey{})
	l := newLibrary(b, sealed.Mixed{Primary: stores[0], Secondary: encrypted, Unique: files.IsUniqueKey}, files.Options{
		SealedStore: sealed.Mixed{Primary: encrypted, Secondary: stores[0], Unique: files.IsUniqueKey},
	})
	dir := b.TempDir()
	name := filepath.Join(dir, "session.jsonl")
	turn := func(seed int) []byte { return append(text(byte(seed), 20_000), '\n') }
	o := files.DirOptions{Confidential: true, Verify: true}
	measure := func(b *testing.B, prepare func(i int), do func(i int)) {
		var took []time.Duration
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			prepare(i)
			b.StartTimer()
			begin := time.Now()
			do(i)
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	}
	var ref files.Ref
	store := func(parent string) {
		var err error
		if ref, err = l.CommitDir(b.Context(), org, parent, dir, o); err != nil {
			b.Fatal(err)
		}
	}
	begin := func(i int) {
		if err := os.WriteFile(name, text(byte(i), 10<<20), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) { measure(b, begin, func(int) { store("") }) })
	begin(0)
	store("")
	b.Run("grown", func(b *testing.B) {
		measure(b, func(i int) {
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write(turn(i))
			}
			if err := errors.Join(err, f.Close()); err != nil {
				b.Fatal(err)
			}
		}, func(int) { store(ref.Digest) })
	})
	b.Run("unchanged", func(b *testing.B) {
		measure(b, func(int) {}, func(int) {
			if _, err := l.Renew(b.Context(), org, ref); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// oneKey is a keyring with one key, which all owners share.
type oneKey struct{}

func (oneKey) Key(context.Context, string, uint32) (sealing.DataKey, error) {
	return sealing.DataKey{Number: 1}, nil
}
