package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
)

// rawTar returns a tar with the headers. Their names and targets may be invalid. Each
// file has the same content.
func rawTar(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.ModTime.IsZero() && h.Typeflag != tar.TypeXGlobalHeader {
			h.ModTime = someTime.Truncate(time.Second)
		}
		body := []byte(nil)
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Typeflag, body = tar.TypeReg, []byte("body")
			h.Size = 4
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// patched returns a copy of a tar in which a field of the first header is replaced and
// the header's checksum is corrected.
func patched(b []byte, offset int, field string) []byte {
	b = bytes.Clone(b)
	copy(b[offset:], field)
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	octal := []byte("000000\x00 ")
	for i := 5; i >= 0; i-- {
		octal[i] = '0' + byte(sum&7)
		sum >>= 3
	}
	copy(b[148:156], octal)
	return b
}

func TestHostileArchivesAreRefused(t *testing.T) {
	t.Parallel()
	plain := rawTar(t, tar.Header{Name: "f"})
	zipped := gzipped(t, plain)
	negative := "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"
	flipped := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0x10
		return b
	}
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	hard := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
	}
	folder := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
	f := tar.Header{Name: "f"}
	for _, c := range []struct {
		name   string
		format files.Format
		input  []byte
		says   string // part of the message
	}{
		{"absolute path", files.Tar, rawTar(t, tar.Header{Name: "/etc/passwd"}), "/etc/passwd"},
		{"absolute folder", files.Tar, rawTar(t, folder("/")), "absolute"},
		{"dot dot", files.Tar, rawTar(t, tar.Header{Name: "../evil"}), "../evil"},
		{"dot dot within", files.Tar, rawTar(t, tar.Header{Name: "a/../../evil"}), "a/../../evil"},
		{"dot dot that stays", files.Tar, rawTar(t, tar.Header{Name: "a/../b"}), "a/../b"},
		{"dot dot at the end", files.Tar, rawTar(t, folder("a/..")), "a/.."},
		{"dot dot folder", files.Tar, rawTar(t, folder("../")), "'../'"},
		{"file as the tree", files.Tar, rawTar(t, tar.Header{Name: "."}), "names the tree itself"},
		{"link as the tree", files.Tar, rawTar(t, link("./", "x")), "names the tree itself"},
		{"absolute link", files.Tar, rawTar(t, link("l", "/etc")), "'l' leaves the tree"},
		{"link up", files.Tar, rawTar(t, link("l", "..")), "'l' leaves the tree"},
		{"link up from below", files.Tar, rawTar(t, link("a/b/l", "../../../x")), "a/b/l"},
		{"link down and up", files.Tar, rawTar(t, link("l", "a/../../x")), "'l' leaves the tree"},
		{"link through a link", files.Tar, rawTar(t, folder("a/b/"), link("a/b/up", "../.."), link("l", "a/b/up/../x")), "'l' may leave the tree"},
		{"link through a link under a link", files.Tar, rawTar(t, folder("a/"), link("u", "a"), link("l", "u/x/../../y")), "'l' may leave the tree"},
		{"link through a later link", files.Tar, rawTar(t, link("l", "z/../x"), link("z", ".")), "'l' may leave the tree"},
		{"link through a link after a way up", files.Tar, rawTar(t, folder("a/b/"), link("a/b/up", "../.."), link("l", "a/b/../b/up/../x")), "'l' may leave the tree"},
		{"link through a link beside its folder", files.Tar, rawTar(t, folder("a/b/"), link("u", "."), link("a/b/l", "x/../../../u/../y")), "'a/b/l' may leave the tree"},
		{"link below a link", files.Tar, rawTar(t, link("u", "."), link("u/l", "x/../y")), "is below 'u'"},
		{"link without target", files.Tar, patched(rawTar(t, link("l", "x")), 157, "\x00"), "'l' has no target"},
		{"long target", files.Tar, rawTar(t, link("l", strings.Repeat("x/", 2049))), "target of link 'l'"},
		{"hard link out", files.Tar, rawTar(t, hard("l", "../x")), "'l' leaves the tree"},
		{"absolute hard link", files.Tar, rawTar(t, hard("l", "/etc/passwd")), "/etc/passwd"},
		{"hard link to nothing", files.Tar, rawTar(t, hard("l", "x")), "'x', which is not an earlier file"},
		{"hard link forward", files.Tar, rawTar(t, hard("l", "f"), f), "'f', which is not an earlier file"},
		{"hard link to itself", files.Tar, rawTar(t, hard("l", "l")), "'l', which is not an earlier file"},
		{"hard link to a folder", files.Tar, rawTar(t, folder("d/"), hard("l", "d")), "'d', which is not an earlier file"},
		{"hard link to a link moved up", files.Tar, rawTar(t, link("a/b/l", "../x"), hard("l", "a/b/l")), "'l' leaves the tree"},
		{"character device", files.Tar, rawTar(t, tar.Header{Name: "dev", Typeflag: tar.TypeChar}), "'dev' is a device"},
		{"block device", files.Tar, rawTar(t, tar.Header{Name: "dev", Typeflag: tar.TypeBlock}), "'dev' is a device"},
		{"named pipe", files.Tar, rawTar(t, tar.Header{Name: "p", Typeflag: tar.TypeFifo}), "'p' is a named pipe"},
		{"unknown type", files.Tar, patched(plain, 156, "Z"), "unknown type"},
		{"file under a file", files.Tar, rawTar(t, f, tar.Header{Name: "f/x"}), "'f/x' is below 'f'"},
		{"file under a later file", files.Tar, rawTar(t, tar.Header{Name: "f/x"}, f), "'f/x' is below 'f'"},
		{"file deep under a file", files.Tar, rawTar(t, f, tar.Header{Name: "f-g"}, tar.Header{Name: "f/x/y/z"}), "is below 'f'"},
		{"file under a link", files.Tar, rawTar(t, link("l", "d"), folder("d/"), tar.Header{Name: "l/x"}), "'l/x' is below 'l'"},
		{"folder under a link", files.Tar, rawTar(t, link("l", "."), folder("l/x/")), "'l/x' is below 'l'"},
		{"file, then folder", files.Tar, rawTar(t, f, folder("f/")), "'f' occurs twice"},
		{"folder, then link", files.Tar, rawTar(t, folder("d/"), link("d", ".")), "'d' occurs twice"},
		{"link, then file", files.Tar, rawTar(t, link("f", "x"), f), "'f' occurs twice"},
		{"long path", files.Tar, rawTar(t, tar.Header{Name: strings.Repeat("abc/", 1024) + "x"}), "more than 4096 bytes"},
		{"longer path", files.Tar, rawTar(t, tar.Header{Name: strings.Repeat(strings.Repeat("y", 200)+"/", 21) + "x"}), "more than 4096 bytes"},
		{"deep path", files.Tar, rawTar(t, tar.Header{Name: strings.Repeat("a/", 255) + "x"}), "more than 255 folders deep"},
		{"long name", files.Tar, rawTar(t, tar.Header{Name: strings.Repeat("x", 256)}), "more than 255 bytes"},
		{"NUL in a name", files.Tar, extended(t, "path", "a\x00b"), ""},
		{"NUL in a target", files.Tar, extended(t, "linkpath", "a\x00b"), ""},
		{"negative size", files.Tar, patched(plain, 124, negative), ""},
		{"negative mode", files.Tar, patched(plain, 100, negative[4:]), "negative mode"},
		{"vast size", files.Tar, patched(plain, 124, "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"), ""},
		{"size past the end", files.Tar, patched(plain, 124, "00000077777\x00"), "cut short"},
		{"size too small", files.Tar, patched(rawTar(t, tar.Header{Name: "f"}), 124, "00000000000\x00"), ""},
		{"time out of range", files.Tar, patched(plain, 136, "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"), ""},
		{"broken header", files.Tar, flipped(plain, 3), "broken header"},
		{"nothing", files.Tar, nil, "cut short"},
		{"nothing as gzip", files.TarGzip, nil, "cut short"},
		{"nothing as zstd", files.TarZstd, nil, "cut short"},
		{"text", files.Tar, []byte(strings.Repeat("this is no archive. ", 100)), "broken header"},
		{"text as gzip", files.TarGzip, []byte("this is no archive"), "not of the format"},
		{"text as zstd", files.TarZstd, []byte("this is no archive"), "not of the format"},
		{"gzip as tar", files.Tar, zipped, ""},
		{"tar as gzip", files.TarGzip, plain, "not of the format"},
		{"gzip of text", files.TarGzip, gzipped(t, []byte(strings.Repeat("this is no tar. ", 100))), "broken header"},
		{"wrong gzip checksum", files.TarGzip, flipped(zipped, len(zipped)-6), "checksum"},
		{"wrong gzip length", files.TarGzip, flipped(zipped, len(zipped)-2), "checksum"},
		{"wrong zstd checksum", files.TarZstd, func() []byte { b := zstdOf(t, plain); return flipped(b, len(b)-1) }(), "checksum"},
		{"garbage after gzip", files.TarGzip, append(bytes.Clone(zipped), "garbage"...), ""},
		{"garbage after tar", files.Tar, append(bytes.Clone(plain), "garbage"...), "continues after the end"},
		{"second tar", files.Tar, append(bytes.Clone(plain), plain...), "continues after the end"},
		{"second gzip", files.TarGzip, append(bytes.Clone(zipped), zipped...), "continues after the end"},
		{"no end", files.Tar, plain[:1024], "cut short"},
		{"half an end", files.Tar, plain[:1536], "cut short"},
		{"end that is content", files.Tar, zerosWithoutEnd(t), "cut short"},
		{"zstd window", files.TarZstd, wideWindow(t), "window"},
		{"unknown format", "zip", plain, "'zip' is not an archive format"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newMemory()
			l := newLibrary(t, s, files.Options{})
			ref, err := l.CommitArchive(t.Context(), org, "", c.format, bytes.NewReader(c.input))
			wantRefused(t, ref, err, c.says)
			if keys := s.keys(); len(keys) > 0 {
				t.Errorf("the store contains %q", keys)
			}
		})
	}
}

func wantRefused(t *testing.T, ref files.Ref, err error, says string) {
	t.Helper()
	var e *stint.Error
	switch {
	case err == nil:
		t.Errorf("it was accepted as %+v", ref)
	case !errors.As(err, &e) || e.Code != stint.CodeInvalidParameter && e.Code != stint.CodeRequestTooLarge || e.Kind == stint.KindInternal:
		t.Errorf("the error is %v", err)
	case !strings.Contains(e.Message, says):
		t.Errorf("the message is %q, want it to contain %q", e.Message, says)
	}
}

// extended returns a tar with a symbolic link that has the PAX record key=value. The
// value may be one that archive/tar does not write.
func extended(t testing.TB, key, value string) []byte {
	t.Helper()
	record := " " + key + "=" + value + "\n"
	record = string(rune('0'+(len(record)+2)/10)) + string(rune('0'+(len(record)+2)%10)) + record
	h := patched(rawTar(t, tar.Header{Name: "x", Typeflag: tar.TypeDir})[:512], 156, "x")
	h = patched(h, 124, "000000000"+string(rune('0'+len(record)>>3))+string(rune('0'+len(record)&7))+"\x00")
	b := append(h, record...)
	b = append(b, make([]byte, 512-len(record))...)
	return append(b, rawTar(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "t"})...)
}

func TestExtendedMakesValidRecords(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref, err := l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(extended(t, "path", "a-b")))
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := l.List(t.Context(), org, ref.Digest, "", "", 1)
	if err != nil || len(page) != 1 || page[0].Path != "a-b" {
		t.Errorf("Files = %+v, %v", page, err)
	}
}

// zerosWithoutEnd returns a tar without an end marker, which consists of zeros. The
// content of its last file consists of zeros too.
func zerosWithoutEnd(t testing.TB) []byte {
	b := tarOf(t, item{name: "zeros", mtime: someTime.Truncate(time.Second), body: make([]byte, 4096)})
	return b[:len(b)-1024]
}

func wideWindow(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{noise(1, 512), make([]byte, 70<<20)} {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sparse returns a tar of a sparse file that consists of one hole of n bytes.
func sparse(t testing.TB, n int64) []byte {
	t.Helper()
	b := rawTar(t, tar.Header{Name: "hole", Format: tar.FormatGNU})
	b = append(b[:512], b[1024:]...)
	number := func(v int64) string {
		field := []byte("\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
		for i := 11; i > 3; i-- {
			field[i] = byte(v)
			v >>= 8
		}
		return string(field)
	}
	b = patched(b, 257, "ustar  \x00")
	b = patched(b, 156, "S")
	b = patched(b, 124, number(0))
	b = patched(b, 386, number(n)+number(0)) // one fragment, empty, at the end
	return patched(b, 483, number(n))
}

func TestSparseFile(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref, err := l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(sparse(t, 3<<20+1)))
	if err != nil {
		t.Fatal(err)
	}
	f, e, err := l.Open(t.Context(), org, ref.Digest, "hole")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || e.Size != 3<<20+1 || !bytes.Equal(got, make([]byte, 3<<20+1)) {
		t.Errorf("the hole reads as %d bytes, its size is %d, %v", len(got), e.Size, err)
	}
}

// TestEveryTruncationIsRefused truncates a small archive at every byte.
func TestEveryTruncationIsRefused(t *testing.T) {
	t.Parallel()
	seconds := someTime.Truncate(time.Second)
	plain := tarOf(t, item{name: "d/", mode: 0o755, mtime: seconds}, item{name: "d/f", body: noise(1, 100)}, item{name: "zeros", body: make([]byte, 1024), mtime: seconds})
	for format, whole := range map[files.Format][]byte{
		files.Tar: plain, files.TarGzip: gzipped(t, plain), files.TarZstd: zstdOf(t, plain),
	} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			s := newMemory()
			l := newLibrary(t, s, files.Options{})
			for n := range whole {
				ref, err := l.CommitArchive(t.Context(), org, "", format, bytes.NewReader(whole[:n]))
				wantRefused(t, ref, err, "cut short")
				if keys := s.keys(); t.Failed() || len(keys) > 0 {
					t.Fatalf("truncated at %d of %d, the store contains %q", n, len(whole), keys)
				}
			}
			if _, err := l.CommitArchive(t.Context(), org, "", format, bytes.NewReader(whole)); err != nil {
				t.Errorf("the whole archive: %v", err)
			}
		})
	}
}

// TestSourceFailure checks that a commit returns the error of the caller's reader and
// stores nothing.
func TestSourceFailure(t *testing.T) {
	t.Parallel()
	gone := errors.New("the connection is gone")
	whole := gzipped(t, tarOf(t, item{name: "f", body: noise(1, 300_000)}))
	for n := 0; n < len(whole); n += 20_011 {
		s := newMemory()
		l := newLibrary(t, s, files.Options{})
		r := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(gone))
		_, err := l.CommitArchive(t.Context(), org, "", files.TarGzip, r)
		var e *stint.Error
		if !errors.Is(err, gone) || errors.As(err, &e) || len(s.keys()) > 0 {
			t.Errorf("after %d bytes: %v, and the store contains %q", n, err, s.keys())
		}
	}
}

func TestCancelledUpload(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	whole := tarOf(t, item{name: "f", body: noise(1, 20<<20)})
	r := io.MultiReader(bytes.NewReader(whole[:18<<20]), readerFunc(func([]byte) (int, error) {
		cancel(why)
		return 0, nil
	}), bytes.NewReader(whole[18<<20:]))
	if _, err := l.CommitArchive(ctx, org, "", files.Tar, r); !errors.Is(err, why) {
		t.Errorf("CommitArchive = %v, want the cause", err)
	}
	if keys := s.keys(); len(keys) > 0 {
		t.Errorf("the store contains %q", keys)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTolerantArchives(t *testing.T) {
	t.Parallel()
	plain := rawTar(t, tar.Header{Name: "f"})
	for name, input := range map[string][]byte{
		"padding after the tar":      append(bytes.Clone(plain), make([]byte, 9000)...),
		"a file twice":               rawTar(t, tar.Header{Name: "f"}, tar.Header{Name: "./f"}),
		"a folder twice":             rawTar(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d", Typeflag: tar.TypeDir}, tar.Header{Name: "f"}),
		"link up and down":           rawTar(t, tar.Header{Name: "a/b/l", Typeflag: tar.TypeSymlink, Linkname: "../../f"}, tar.Header{Name: "f"}),
		"link to the tree":           rawTar(t, tar.Header{Name: "a/l", Typeflag: tar.TypeSymlink, Linkname: ".."}, tar.Header{Name: "f"}),
		"link past folders and back": rawTar(t, tar.Header{Name: "a/b/", Typeflag: tar.TypeDir}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a/b/../../f"}, tar.Header{Name: "f"}),
		"global header":              append(rawTar(t, tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "c"}})[:1024], plain...),
		"file named like a folder":   patched(rawTar(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir}, tar.Header{Name: "f"}), 156, "0"),
	} {
		l := newLibrary(t, newMemory(), files.Options{})
		ref, err := l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(input))
		if err != nil || ref.Files != 1 || ref.Size != 4 {
			t.Errorf("%s: %+v, %v", name, ref, err)
		}
	}
}

// TestLastEntryWins checks that a later entry replaces an earlier one with the same
// path. Hard links to the earlier one keep its content.
func TestLastEntryWins(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write := func(h tar.Header, body string) {
		h.Size, h.ModTime, h.Mode = int64(len(body)), someTime.Truncate(time.Second), max(h.Mode, 0o600)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	write(tar.Header{Name: "f", Typeflag: tar.TypeReg, Mode: 0o751}, "first")
	write(tar.Header{Name: "before", Typeflag: tar.TypeLink, Linkname: "./f"}, "")
	write(tar.Header{Name: "f", Typeflag: tar.TypeReg}, "second")
	write(tar.Header{Name: "after", Typeflag: tar.TypeLink, Linkname: "f"}, "")
	write(tar.Header{Name: "chain", Typeflag: tar.TypeLink, Linkname: "before"}, "")
	write(tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../f"}, "")
	write(tar.Header{Name: "d/m", Typeflag: tar.TypeLink, Linkname: "d/l"}, "")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ref, err := l.CommitArchive(t.Context(), org, "", files.Tar, &b)
	if err != nil {
		t.Fatal(err)
	}
	when := someTime.Truncate(time.Second)
	checkEverywhere(t, l, ref, map[string]look{
		"f": lookOf("file", 0o600, when, "", []byte("second")), "after": lookOf("file", 0o600, when, "", []byte("second")),
		"before": lookOf("file", 0o751, when, "", []byte("first")), "chain": lookOf("file", 0o751, when, "", []byte("first")),
		"d":   lookOf("dir", 0o755, time.Unix(0, 0), "", nil),
		"d/l": lookOf("symlink", 0o777, when, "../f", nil), "d/m": lookOf("symlink", 0o777, when, "../f", nil),
	})
}

// FuzzCommitArchive commits arbitrary bytes. A valid archive is stored completely; any
// other input is refused, and nothing is stored.
func FuzzCommitArchive(f *testing.F) {
	plain := tarOf(f, item{name: "d/", mode: 0o755}, item{name: "d/f", body: []byte("hello")}, item{name: "l", target: "d"})
	f.Add(plain, byte(0))
	f.Add(gzipped(f, plain), byte(1))
	f.Add(zstdOf(f, plain), byte(2))
	f.Add(sparse(f, 1<<20), byte(0))
	f.Add(rawTar(f, tar.Header{Name: "f"}, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "f"}), byte(0))
	f.Add(extended(f, "path", "a-b"), byte(0))
	s := newMemory()
	temp := f.TempDir()
	f.Fuzz(func(t *testing.T, input []byte, format byte) {
		l, err := files.New(s, files.Options{TempDir: temp, Limits: files.Limits{TotalBytes: 4 << 20, RatioFloor: 8 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		formats := []files.Format{files.Tar, files.TarGzip, files.TarZstd}
		before := len(s.keys())
		ref, err := l.CommitArchive(t.Context(), org, "", formats[int(format)%3], bytes.NewReader(input))
		var e *stint.Error
		switch {
		case err == nil:
			again, err := l.CommitArchive(t.Context(), org, "", files.TarGzip, bytes.NewReader(readArchive(t, l, ref.Digest)))
			if err != nil || again != ref {
				t.Errorf("the archive of %+v uploads as %+v, %v", ref, again, err)
			}
			if err := l.Checkout(t.Context(), org, ref.Digest, t.TempDir()); err != nil {
				t.Errorf("checking out what was accepted: %v", err)
			}
		case !errors.As(err, &e):
			t.Errorf("the error is %v", err)
		case len(s.keys()) != before:
			t.Error("a refused archive left something")
		}
	})
}
