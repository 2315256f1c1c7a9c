package files_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
)

// download returns a tree in a format.
func download(t testing.TB, l *files.Library, digest string, f files.Format) []byte {
	t.Helper()
	if f == files.TarZstd {
		var b bytes.Buffer
		if err := l.WriteZstd(t.Context(), org, digest, &b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	d, err := l.Download(t.Context(), org, digest, f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(d)
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != d.Size() {
		t.Errorf("the %s has %d bytes, its Size is %d", f, len(b), d.Size())
	}
	return b
}

// anyBytes returns oddTree with further names, which are not valid UTF-8.
func anyBytes() []item {
	return append(oddTree(),
		item{name: "latin-\xe9", body: []byte("no UTF-8")}, item{name: "latin-\xff/", mode: 0o755},
		item{name: "latin-\xff/\x80", body: text(9, 300)}, item{name: "latin-link", target: "latin-\xe9"})
}

// wholeSeconds truncates times to seconds, as a zip does. It removes times that
// programs restore from a zip in different ways.
func wholeSeconds(looks map[string]look) map[string]look {
	out := map[string]look{}
	for path, k := range looks {
		k.Mtime, _, _ = strings.Cut(k.Mtime, ".")
		out[path] = k
	}
	return timeless(out, func(path string, _ look) bool { return path == "far-future" || strings.HasSuffix(path, "before-epoch") })
}

// timeless removes the times of the entries for which of returns true.
func timeless(looks map[string]look, of func(path string, k look) bool) map[string]look {
	out := map[string]look{}
	for path, k := range looks {
		if of(path, k) {
			k.Mtime = ""
		}
		out[path] = k
	}
	return out
}

// asUnzip changes looks as wholeSeconds does. It also removes the times of symbolic
// links, which unzip does not restore.
func asUnzip(looks map[string]look) map[string]look {
	return timeless(wholeSeconds(looks), func(_ string, k look) bool { return k.Kind == "symlink" })
}

// asBSDUnzip changes looks as wholeSeconds does. It also removes the file whose name
// ends with a backslash, which bsdtar extracts from a zip as a folder.
func asBSDUnzip(looks map[string]look) map[string]look {
	out := wholeSeconds(looks)
	maps.DeleteFunc(out, func(path string, _ look) bool { return strings.HasPrefix(path, "tab\tand") })
	return out
}

// asBSDTar removes times before 1970, because bsdtar reads their fractions of a
// second wrongly.
func asBSDTar(looks map[string]look) map[string]look {
	return timeless(looks, func(path string, _ look) bool { return strings.HasSuffix(path, "before-epoch") })
}

const pythonUntar = `
import sys, tarfile
with tarfile.open(sys.argv[1], "r:") as t:
    t.extractall(sys.argv[2], **({"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}))
`

// pythonUnzip is a program that extracts a zip with the module zipfile, which
// verifies each CRC. Names that are not declared as UTF-8 are decoded as code
// page 437.
const pythonUnzip = `
import os, stat, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    assert z.testzip() is None
    infos = z.infolist()
    for i in infos:
        raw = i.filename.encode("utf-8" if i.flag_bits & 0x800 else "cp437")
        path, mode = os.path.join(os.fsencode(sys.argv[2]), raw), i.external_attr >> 16
        if stat.S_ISDIR(mode):
            os.mkdir(path)
        elif stat.S_ISLNK(mode):
            os.symlink(z.read(i), path)
        else:
            assert stat.S_ISREG(mode)
            with open(path, "xb") as f: f.write(z.read(i))
            os.chmod(path, stat.S_IMODE(mode))
    for i in reversed(infos):
        raw = i.filename.encode("utf-8" if i.flag_bits & 0x800 else "cp437")
        if stat.S_ISDIR(i.external_attr >> 16):
            os.chmod(os.path.join(os.fsencode(sys.argv[2]), raw), stat.S_IMODE(i.external_attr >> 16))
`

// TestSoakOtherToolsUnpackDownloads compares the trees that other programs
// extract from each format with the original.
func TestSoakOtherToolsUnpackDownloads(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	items := anyBytes()
	digest := stored(t, l, "", items...).Digest
	want := itemLooks(items)
	all := func(k map[string]look) map[string]look { return k }
	dir := t.TempDir()
	for _, f := range []files.Format{files.TarGzip, files.Tar, files.TarZstd, files.Zip} {
		if err := os.WriteFile(filepath.Join(dir, "a."+string(f)), download(t, l, digest, f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "gzip", "-t", "a.tar.gz")
	run(t, dir, "zstd", "-qt", "a.tar.zst")
	run(t, dir, "unzip", "-qt", "a.zip")
	for _, tt := range []struct {
		name    string
		compare func(map[string]look) map[string]look
		command []string // extracts into the current folder
	}{
		{"bsdtar of tar.gz", asBSDTar, []string{"bsdtar", "-xpf", dir + "/a.tar.gz", "--no-same-owner"}},
		{"tar of tar", all, []string{"tar", "-xpf", dir + "/a.tar", "--no-same-owner"}},
		{"bsdtar of tar", asBSDTar, []string{"bsdtar", "-xpf", dir + "/a.tar", "--no-same-owner"}},
		{"Python of tar", withoutTimes, []string{"python3", "-c", pythonUntar, dir + "/a.tar", "."}},
		{"tar of tar.zst", all, []string{"tar", "--zstd", "-xpf", dir + "/a.tar.zst", "--no-same-owner"}},
		{"bsdtar of tar.zst", asBSDTar, []string{"bsdtar", "-xpf", dir + "/a.tar.zst", "--no-same-owner"}},
		{"unzip of zip", asUnzip, []string{"unzip", "-q", "-^", dir + "/a.zip"}},
		{"bsdtar of zip", asBSDUnzip, []string{"bsdtar", "-xpf", dir + "/a.zip", "--no-same-owner"}},
		{"Python of zip", withoutTimes, []string{"python3", "-c", pythonUnzip, dir + "/a.zip", "."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			into := t.TempDir()
			run(t, into, tt.command[0], tt.command[1:]...)
			if diff := cmp.Diff(tt.compare(want), tt.compare(folderLooks(t, into))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSoakFormatsAreEquivalent checks that the tar.gz and the tar.zst contain the same
// tar as the plain download, and that the zip contains the same entries.
func TestSoakFormatsAreEquivalent(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	for name, items := range map[string][]item{
		"empty": nil, "odd": anyBytes(), "one": {{name: "f", body: text(1, 5)}}, "only folders": {{name: "d/", mode: 0o755}, {name: "d/e/", mode: 0o700}},
	} {
		digest := stored(t, l, "", items...).Digest
		plain := download(t, l, digest, files.Tar)
		if got := gunzipped(t, download(t, l, digest, files.TarGzip)); !bytes.Equal(plain, got) {
			t.Errorf("%s: the tar.gz contains another tar", name)
		}
		z, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := z.DecodeAll(download(t, l, digest, files.TarZstd), nil); err != nil || !bytes.Equal(plain, got) {
			t.Errorf("%s: the tar.zst contains another tar, %v", name, err)
		}
		z.Close()
		zipped := download(t, l, digest, files.Zip)
		if diff := cmp.Diff(wholeSeconds(itemLooks(items)), wholeSeconds(zipLooks(t, zipped))); diff != "" {
			t.Errorf("%s: the zip (-want +got):\n%s", name, diff)
		}
		if !bytes.Equal(zipped, download(t, l, digest, files.Zip)) {
			t.Errorf("%s: two zips differ", name)
		}
	}
}

func gunzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b.gz"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "gzip", "-d", "b.gz")
	out, err := os.ReadFile(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func zipLooks(t testing.TB, b []byte) map[string]look {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]look{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			t.Fatalf("%q: %v", f.Name, err)
		}
		name := strings.TrimSuffix(f.Name, "/")
		switch f.Mode().Type() {
		case fs.ModeDir:
			seen[name] = lookOf("dir", f.Mode(), f.Modified, "", nil)
		case fs.ModeSymlink:
			seen[name] = lookOf("symlink", f.Mode(), f.Modified, string(body), nil)
		default:
			seen[name] = lookOf("file", f.Mode(), f.Modified, "", body)
		}
	}
	return seen
}

// TestRandomDownloadParts reads random ranges of a download and compares them with the
// whole download. The tree has several pages.
func TestRandomDownloadParts(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	items := anyBytes()
	for i := range 2000 {
		items = append(items, item{name: fmt.Sprintf("many/%s%d", strings.Repeat("m", 1+i%60), i), body: text(byte(i), i%300)})
	}
	digest := stored(t, l, "", items...).Digest
	for _, f := range []files.Format{files.Tar, files.Zip} {
		t.Run(string(f), func(t *testing.T) {
			whole := download(t, l, digest, f)
			d, err := l.Download(t.Context(), org, digest, f)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			check := func(t interface{ Errorf(string, ...any) }, offset, n int) {
				at, err := d.Seek(int64(offset), io.SeekStart)
				got := make([]byte, n)
				read, err2 := io.ReadFull(d, got)
				want := whole[min(offset, len(whole)):min(offset+n, len(whole))]
				if err != nil || at != int64(offset) || !bytes.Equal(got[:read], want) || (err2 != nil) != (read < n) {
					t.Errorf("at %d, %d bytes differ from the whole's, %v, %v", offset, n, err, err2)
				}
			}
			for offset := len(whole) - 4000; offset < len(whole)+10; offset += 7 {
				check(t, offset, 20)
			}
			rapid.Check(t, func(rt *rapid.T) {
				check(rt, rapid.IntRange(0, len(whole)+10).Draw(rt, "offset"), rapid.IntRange(0, 300_000).Draw(rt, "n"))
			})
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if _, err := d.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("Read after Close = %v", err)
			}
			if _, err := d.Seek(-1, io.SeekStart); err == nil {
				t.Error("a negative position was accepted")
			}
		})
	}
}

func TestDownloadReaders(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	digest := stored(t, l, "", item{name: "d/", mode: 0o755}, item{name: "f", body: noise(1, 2000)}, item{name: "g", body: text(2, 9000)}).Digest
	for _, f := range []files.Format{files.Tar, files.Zip} {
		d, err := l.Download(t.Context(), org, digest, f)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := iotest.TestReader(d, download(t, l, digest, f)); err != nil {
			t.Errorf("%s: %.300s", f, err)
		}
	}
	if _, err := l.Download(t.Context(), org, digest, files.TarZstd); stint.KindOf(err) != stint.KindInvalid {
		t.Errorf("a tar.zst to be sought in: %v", err)
	}
	for _, f := range []files.Format{files.Tar, files.Zip, files.TarGzip} {
		if _, err := l.Download(t.Context(), org, strings.Repeat("0", 64), f); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("a %s of no tree: %v", f, err)
		}
	}
}

// TestDamagedTarIsAnError checks that a download fails if a pack is damaged, also when
// the format needs the decompressed content.
func TestDamagedTarIsAnError(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	digest := stored(t, l, "", item{name: "f", body: noise(1, 40_000)}).Digest
	for _, key := range s.keys() {
		if strings.Contains(key, "/packs/") {
			s.objects[key] = bytes.Clone(s.objects[key])
			s.objects[key][20_000] ^= 1
		}
	}
	d, err := l.Download(t.Context(), org, digest, files.Tar)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := io.ReadAll(d); err == nil {
		t.Error("a damaged file was read")
	}
	if err := l.WriteZstd(t.Context(), org, digest, io.Discard); err == nil {
		t.Error("a damaged file was compressed")
	}
}

func (bucket) PresignGet(_ context.Context, key, name, contentType string, ttl time.Duration) (string, error) {
	return fmt.Sprintf("https://bucket/%s?%s,%s,%s", key, name, contentType, ttl), nil
}
