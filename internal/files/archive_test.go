package files_test

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
	"pgregory.net/rapid"
)

// run runs a system tool, which must be installed.
func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

const pythonUnpack = `
import sys, tarfile
with tarfile.open(sys.argv[1], "r:gz") as t:
    t.extractall(sys.argv[2], **({"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}))
`

// TestSoakOtherToolsUnpackTheArchive compares the trees that gzip, tar, and
// Python extract from an archive with the original.
func TestSoakOtherToolsUnpackTheArchive(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	items := oddTree()
	ref := stored(t, l, "", items...)
	file := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(file, readArchive(t, l, ref.Digest), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, ".", "gzip", "-t", file)
	want := itemLooks(items)
	viaTar, viaPython := t.TempDir(), t.TempDir()
	run(t, viaTar, "tar", "-xpzf", file, "--no-same-owner")
	if diff := cmp.Diff(want, folderLooks(t, viaTar)); diff != "" {
		t.Errorf("tar -x (-want +got):\n%s", diff)
	}
	run(t, ".", "python3", "-c", pythonUnpack, file, viaPython)
	if diff := cmp.Diff(withoutTimes(want), withoutTimes(folderLooks(t, viaPython))); diff != "" {
		t.Errorf("Python (-want +got):\n%s", diff)
	}
}

// withoutTimes returns a copy of looks without modification times, which Python and the gnu
// format of tar do not preserve exactly.
func withoutTimes(looks map[string]look) map[string]look {
	out := map[string]look{}
	for path, k := range looks {
		k.Mtime = ""
		out[path] = k
	}
	return out
}

func TestEmptyArchiveIsValid(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "")
	file := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(file, readArchive(t, l, ref.Digest), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, ".", "gzip", "-t", file)
	if out := run(t, ".", "tar", "-tzf", file); out != "" {
		t.Errorf("tar -t lists %q", out)
	}
}

// TestSoakCommitArchiveOfTar uploads archives that the tar program of the system
// creates.
func TestSoakCommitArchiveOfTar(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	first := stored(t, l, "", oddTree()...)
	dir := t.TempDir()
	if err := l.Checkout(t.Context(), org, first.Digest, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "small.txt"), filepath.Join(dir, "z-hard-link")); err != nil {
		t.Fatal(err)
	}
	want := folderLooks(t, dir)
	for _, format := range []string{"pax", "gnu"} {
		file := filepath.Join(t.TempDir(), format+".tar.gz")
		run(t, dir, "tar", "-czf", file, "--format="+format, "--sparse", ".")
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := l.CommitArchive(t.Context(), org, first.Digest, files.TarGzip, f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatalf("uploading a tar of format %s: %v", format, err)
		}
		got := archiveLooks(t, readArchive(t, l, ref.Digest))
		if format == "gnu" { // the format has whole seconds only
			got, want = withoutTimes(got), withoutTimes(want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after tar --format=%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestSoakArchiveIsReproducible(t *testing.T) {
	t.Parallel()
	items := oddTree()
	var first []byte
	for range 3 { // each in its own store
		l := newLibrary(t, newMemory(), files.Options{})
		ref := stored(t, l, "", items...)
		for range 2 {
			b := readArchive(t, l, ref.Digest)
			if first == nil {
				first = b
			}
			if !bytes.Equal(first, b) {
				t.Error("two archives of one version differ")
			}
		}
	}
}

// TestArchiveBytesDoNotChange compares an archive with a fixed digest and checksum. The
// bytes of archives must not change, because clients cache and resume downloads across
// releases of Stint.
func TestArchiveBytesDoNotChange(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	when := time.Unix(1_700_000_000, 5e8)
	ref := stored(t, l, "", item{name: "d/", mode: 0o755, mtime: when}, item{name: "é", mtime: when}, item{name: "l", target: "d", mtime: when})
	const digest = "343a651b7bf1b94e0411ecd04e569cc8de928fd172bf168573a635937dfc49b9"
	if ref.Digest != digest {
		t.Errorf("the digest is %s", ref.Digest)
	}
	const sum, length = uint32(0xda4cac26), 464
	if b := readArchive(t, l, ref.Digest); crc32.ChecksumIEEE(b) != sum || len(b) != length {
		t.Errorf("the archive has %d bytes with CRC %#x", len(b), crc32.ChecksumIEEE(b))
	}
}

// TestSoakArchiveRanges compares ranges of an archive with the whole archive.
func TestSoakArchiveRanges(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	items := oddTree()
	for i := range 3000 { // enough entries for several blocks
		items = append(items, item{name: "many/" + strings.Repeat("m", 1+i%60) + time.Duration(i).String(), body: text(byte(i), i%300)})
	}
	ref := stored(t, l, "", items...)
	whole := readArchive(t, l, ref.Digest)
	a, err := l.Download(t.Context(), org, ref.Digest, files.TarGzip)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	check := func(t interface{ Errorf(string, ...any) }, offset, n int) {
		at, err := a.Seek(int64(offset), io.SeekStart)
		if err != nil || at != int64(offset) {
			t.Errorf("Seek(%d) = %d, %v", offset, at, err)
		}
		got := make([]byte, n)
		read, err := io.ReadFull(a, got)
		want := whole[min(offset, len(whole)):min(offset+n, len(whole))]
		if !bytes.Equal(got[:read], want) || (err != nil) != (read < n) {
			t.Errorf("at %d, %d bytes differ from the whole's, %v", offset, n, err)
		}
	}
	for offset := 0; offset < 5000; offset += 7 {
		check(t, offset, 10)
	}
	for offset := len(whole) - 5000; offset < len(whole)+10; offset += 7 {
		check(t, offset, 20)
	}
	rapid.Check(t, func(rt *rapid.T) {
		check(rt, rapid.IntRange(0, len(whole)+10).Draw(rt, "offset"), rapid.IntRange(0, 1<<20).Draw(rt, "n"))
	})
}

func TestArchiveReader(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "", item{name: "d/", mode: 0o755}, item{name: "f", body: noise(1, 2000)}, item{name: "g", body: text(2, 9000)})
	a, err := l.Download(t.Context(), org, ref.Digest, files.TarGzip)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := iotest.TestReader(a, readArchive(t, l, ref.Digest)); err != nil {
		t.Errorf("%.300s", err)
	}
}

func TestArchiveSeekErrors(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	a, err := l.Download(t.Context(), org, stored(t, l, "").Digest, files.TarGzip)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Seek(-1, io.SeekStart); err == nil {
		t.Error("a negative position was accepted")
	}
	if _, err := a.Seek(0, 7); err == nil {
		t.Error("whence 7 was accepted")
	}
	if at, err := a.Seek(-8, io.SeekEnd); err != nil || at != a.Size()-8 {
		t.Errorf("Seek from the end = %d, %v", at, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read after Close = %v", err)
	}
}

// TestLargeNumbersInHeaders reads tar headers with extreme sizes, times, and names. The files
// are too large for a test to store.
func TestLargeNumbersInHeaders(t *testing.T) {
	t.Parallel()
	for _, want := range []tar.Header{
		{Name: "f", Size: 8<<30 - 1, ModTime: time.Unix(1, 0)},
		{Name: "f", Size: 8 << 30, ModTime: time.Unix(8<<30-1, 0)},
		{Name: "f", Size: 1 << 60, ModTime: time.Unix(8<<30, 0)},
		{Name: strings.Repeat("x", 4096), Size: 1 << 41, ModTime: time.Unix(-62135596800, 1)},
		{Name: "f", Size: 0, ModTime: time.Unix(253402300799, 999_999_999)},
		{Name: "f", Linkname: strings.Repeat("y", 4095), ModTime: time.Unix(-1, 0)},
		{Name: strings.Repeat("é", 51), Linkname: "ü", ModTime: time.Unix(-2, 250_000_000)},
		{Name: strings.Repeat("\xe9", 101), Linkname: "\xff", ModTime: time.Unix(0, 100)},
	} {
		b := files.TarHeader(want.Name, want.Linkname, want.Size, want.ModTime)
		h, err := tar.NewReader(bytes.NewReader(b)).Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(b)%512 != 0 || h.Name != want.Name || h.Linkname != want.Linkname || h.Size != want.Size || !h.ModTime.Equal(want.ModTime) || h.Mode != 0o640 {
			t.Errorf("the header of %+v reads as %+v", want, h)
		}
	}
}

func TestRandomRunsExpand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var parts, want []byte
		for range rapid.IntRange(0, 3).Draw(rt, "segments") {
			var b []byte
			for range rapid.IntRange(0, 20).Draw(rt, "runs") {
				c := rapid.Byte().Draw(rt, "byte")
				b = append(b, bytes.Repeat([]byte{c}, rapid.IntRange(0, 600).Draw(rt, "length"))...)
			}
			want = append(want, b...)
			parts = files.AppendRuns(parts, b)
		}
		got, err := io.ReadAll(flate.NewReader(bytes.NewReader(append(parts, files.StreamEnd...))))
		if err != nil || !bytes.Equal(got, want) {
			rt.Errorf("%d bytes expand to %d, %v", len(want), len(got), err)
		}
	})
	for n := range 1100 { // runs of every length
		want := bytes.Repeat([]byte{200}, n)
		got, err := io.ReadAll(flate.NewReader(bytes.NewReader(append(files.AppendRuns(nil, want), files.StreamEnd...))))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("a run of %d expands to %d, %v", n, len(got), err)
		}
	}
}

func TestRandomCombineCRC(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := rapid.SliceOf(rapid.Byte()).Draw(rt, "a")
		b := rapid.SliceOf(rapid.Byte()).Draw(rt, "b")
		want := crc32.ChecksumIEEE(append(bytes.Clone(a), b...))
		if got := files.CombineCRC(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), int64(len(b))); got != want {
			rt.Errorf("combined %#x, want %#x", got, want)
		}
	})
	big := make([]byte, 5<<20)
	want := crc32.ChecksumIEEE(append([]byte("x"), big...))
	if got := files.CombineCRC(crc32.ChecksumIEEE([]byte("x")), crc32.ChecksumIEEE(big), int64(len(big))); got != want {
		t.Errorf("combined %#x, want %#x", got, want)
	}
	// 2^32-1 zero bytes do not change a checksum: modulo the polynomial of the CRC, the
	// order of x divides 2^32-1.
	if got := files.CombineCRC(0x12345678, 0, 1<<32-1); got != 0x12345678 {
		t.Errorf("after a full period the checksum is %#x", got)
	}
}

// TestSoakDamagedChunkIsAnError flips bits of stored objects, and truncates the objects.
// Checkout of a damaged snapshot writes the original content or returns an error.
func TestSoakDamagedChunkIsAnError(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	items := []item{{name: "a", body: text(1, 5000)}, {name: "b", body: noise(2, 3<<20)}, {name: "d/", mode: 0o755}}
	ref := stored(t, l, "", items...)
	want := itemLooks(items)
	for _, key := range s.keys() {
		whole := s.objects[key]
		for at := 0; at < len(whole); at += 1 + len(whole)/97 {
			s.objects[key] = bytes.Clone(whole)
			s.objects[key][at] ^= 4
			dir := t.TempDir()
			if err := l.Checkout(t.Context(), org, ref.Digest, dir); err == nil {
				if diff := cmp.Diff(want, folderLooks(t, dir)); diff != "" {
					t.Errorf("%s damaged at %d checks out as (-want +got):\n%s", key, at, diff)
				}
			} else if errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s damaged at %d: %v", key, at, err)
			}
		}
		cuts := []int{0, 1, len(whole) / 2, len(whole) - 1}
		if strings.Contains(key, "/packs/") {
			cuts = cuts[:3] // reading a tree does not read a pack's footer
		}
		for _, n := range cuts {
			s.objects[key] = whole[:n]
			if err := l.Checkout(t.Context(), org, ref.Digest, t.TempDir()); err == nil {
				t.Errorf("%s cut to %d bytes was checked out", key, n)
			}
		}
		s.objects[key] = whole
	}
}
