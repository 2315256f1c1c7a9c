package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/image"
	"github.com/stint-dev/stint/internal/image/imagetest"
)

type entry = imagetest.Entry

func file(name, data string) entry { return fileMode(name, data, 0o644) }
func fileMode(name, data string, mode int64) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Format: tar.FormatPAX}, Data: []byte(data)}
}

func folder(name string, mode int64) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}}
}

func symlink(name, target string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777, Format: tar.FormatPAX}}
}

func hardLink(name, target string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target, Format: tar.FormatPAX}}
}

func special(name string, kind byte) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: kind, Mode: 0o666, Devmajor: 1, Devminor: 3}}
}

func layer(t testing.TB, entries ...entry) []byte { return imagetest.Archive(t, entries...) }

// listing describes each path below dir: a folder by its mode, a file by its mode and
// content, and a symbolic link by its target.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch {
		case info.IsDir():
			found[name] = info.Mode().String()
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			found[name] = "-> " + target
			return err
		default:
			b, err := os.ReadFile(p)
			found[name] = info.Mode().String() + " " + string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// rootWithCanary returns a root next to a canary file, and a function that checks that
// files outside the root are unchanged.
func rootWithCanary(t testing.TB) (root string, check func()) {
	t.Helper()
	around := t.TempDir()
	root = filepath.Join(around, "root")
	canary := filepath.Join(around, "canary")
	if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(canary, []byte("alive"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(canary)
	if err != nil {
		t.Fatal(err)
	}
	return root, func() {
		t.Helper()
		after, err := os.Stat(canary)
		if err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() || after.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("the file next to the root was changed: %v %v", after, err)
		}
		b, err := os.ReadFile(canary)
		if err != nil || string(b) != "alive" {
			t.Errorf("the file next to the root contains %q, %v", b, err)
		}
		beside, err := os.ReadDir(around)
		if err != nil || len(beside) != 2 {
			t.Errorf("files next to the root: %v, %v", beside, err)
		}
	}
}

func TestUnpackLayers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layers [][]entry
		want   map[string]string
	}{
		"files, folders, links": {
			[][]entry{{folder("./", 0o755), folder("./etc/", 0o750), fileMode("./etc/passwd", "root", 0o600), symlink("bin", "usr/bin"), hardLink("etc/same", "etc/passwd")}},
			map[string]string{"etc": "drwxr-x---", "etc/passwd": "-rw------- root", "bin": "-> usr/bin", "etc/same": "-rw------- root"},
		},
		"a later layer replaces": {
			[][]entry{{file("a", "1"), folder("d", 0o755), file("d/x", "1"), symlink("l", "a"), file("f", "1")}, {file("a", "2"), file("d", "now a file"), folder("l", 0o755), folder("f", 0o755), file("f/in", "2")}},
			map[string]string{"a": "-rw-r--r-- 2", "d": "-rw-r--r-- now a file", "l": "drwxr-xr-x", "f": "drwxr-xr-x", "f/in": "-rw-r--r-- 2"},
		},
		"a later folder keeps its entries": {
			[][]entry{{folder("d", 0o755), file("d/x", "1")}, {folder("d", 0o711)}},
			map[string]string{"d": "drwx--x--x", "d/x": "-rw-r--r-- 1"},
		},
		"replacing a file keeps its hard links": {
			[][]entry{{file("a", "1"), hardLink("b", "a")}, {file("a", "2")}},
			map[string]string{"a": "-rw-r--r-- 2", "b": "-rw-r--r-- 1"},
		},
		"whiteouts": {
			[][]entry{{file("d/x", "1"), file("d/y", "1"), file("e/z", "1"), symlink("l", "d")}, {file("d/.wh.x", ""), file(".wh.e", ""), file(".wh.l", ""), file("no/.wh.such", ""), file("d/.wh.none", "")}},
			map[string]string{"d": "drwxr-xr-x", "d/y": "-rw-r--r-- 1"},
		},
		"a whiteout does not hide entries of its own layer": {
			[][]entry{{file("d/x", "1"), file("d/old", "1"), file("f", "1")}, {file("d/x", "2"), file(".wh.d", ""), file(".wh.f", ""), file("f", "2")}},
			map[string]string{"d": "drwxr-xr-x", "d/x": "-rw-r--r-- 2", "f": "-rw-r--r-- 2"},
		},
		"an opaque folder, before or after its entries": {
			[][]entry{{file("d/x", "1"), file("d/sub/y", "1"), file("e/x", "1")}, {file("d/new", "2"), file("d/sub/new", "2"), file("d/.wh..wh..opq", ""), file("e/.wh..wh..opq", ""), file("e/new", "2")}},
			map[string]string{"d": "drwxr-xr-x", "d/new": "-rw-r--r-- 2", "d/sub": "drwxr-xr-x", "d/sub/new": "-rw-r--r-- 2", "e": "drwxr-xr-x", "e/new": "-rw-r--r-- 2"},
		},
		"entries of old storage drivers": {
			[][]entry{{file(".wh..wh.plnk/x", ""), file(".wh..wh.aufs", "")}},
			map[string]string{".wh..wh.plnk": "drwxr-xr-x", ".wh..wh.plnk/x": "-rw-r--r-- "},
		},
		"entries below a symbolic link": {
			[][]entry{
				{folder("usr/lib", 0o755), symlink("lib", "usr/lib"), folder("run", 0o755), symlink("var/run", "/run"), symlink("up", "../../../run")},
				{file("lib/libc", "c"), file("var/run/pid", "1"), file("up/too", "2"), file("lib/.wh.gone", "")},
			},
			map[string]string{"usr": "drwxr-xr-x", "usr/lib": "drwxr-xr-x", "usr/lib/libc": "-rw-r--r-- c", "lib": "-> usr/lib", "run": "drwxr-xr-x", "run/pid": "-rw-r--r-- 1", "run/too": "-rw-r--r-- 2", "var": "drwxr-xr-x", "var/run": "-> /run", "up": "-> ../../../run"},
		},
		"a whiteout through a symbolic link": {
			[][]entry{{file("usr/lib/a", "1"), symlink("lib", "usr/lib")}, {file("lib/.wh.a", "")}},
			map[string]string{"usr": "drwxr-xr-x", "usr/lib": "drwxr-xr-x", "lib": "-> usr/lib"},
		},
		"a symbolic link that is replaced": {
			[][]entry{{folder("a", 0o755), folder("b", 0o755), symlink("l", "a"), file("l/1", "1"), symlink("l", "b"), file("l/2", "2")}},
			map[string]string{"a": "drwxr-xr-x", "a/1": "-rw-r--r-- 1", "b": "drwxr-xr-x", "b/2": "-rw-r--r-- 2", "l": "-> b"},
		},
		"absolute names": {
			[][]entry{{file("/etc/a", "1"), file("//etc//b", "1"), file("etc/../c", "1")}},
			map[string]string{"etc": "drwxr-xr-x", "etc/a": "-rw-r--r-- 1", "etc/b": "-rw-r--r-- 1", "c": "-rw-r--r-- 1"},
		},
		"unusual names": {
			[][]entry{{file("new\nline", "1"), file("bad\xff\xfe", "2"), file(" ", "3"), file("-rf", "4"), file("back\\slash", "5")}},
			map[string]string{"new\nline": "-rw-r--r-- 1", "bad\xff\xfe": "-rw-r--r-- 2", " ": "-rw-r--r-- 3", "-rf": "-rw-r--r-- 4", "back\\slash": "-rw-r--r-- 5"},
		},
		"modes and types that are dropped": {
			[][]entry{{fileMode("su", "x", 0o6755), folder("tmp", 0o1777), folder("sg", 0o2755), folder("shut", 0), special("null", tar.TypeChar), special("sda", tar.TypeBlock), special("pipe", tar.TypeFifo)}},
			map[string]string{"su": "-rwxr-xr-x x", "tmp": "dtrwxrwxrwx", "sg": "drwxr-xr-x", "shut": "drwx------"},
		},
		"a device hides the file below": {
			[][]entry{{file("a", "1")}, {special("a", tar.TypeChar)}},
			map[string]string{},
		},
		"a hard link to a symbolic link": {
			[][]entry{{symlink("l", "/etc/passwd"), hardLink("m", "l"), hardLink("m", "./m")}},
			map[string]string{"l": "-> /etc/passwd", "m": "-> /etc/passwd"},
		},
		"an absolute hard link through a symbolic link": {
			[][]entry{{file("usr/a", "1"), symlink("l", "/usr"), hardLink("b", "/l/a")}},
			map[string]string{"usr": "drwxr-xr-x", "usr/a": "-rw-r--r-- 1", "l": "-> /usr", "b": "-rw-r--r-- 1"},
		},
		"a missing folder that a symbolic link refers to": {
			[][]entry{{symlink("l", "/not/there"), file("l/x", "1")}},
			map[string]string{"l": "-> /not/there", "not": "drwxr-xr-x", "not/there": "drwxr-xr-x", "not/there/x": "-rw-r--r-- 1"},
		},
		"empty": {[][]entry{{}}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, check := rootWithCanary(t)
			var layers [][]byte
			for _, entries := range c.layers {
				layers = append(layers, layer(t, entries...))
			}
			if err := image.Unpack(t.Context(), root, 1<<20, 1000, layers...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, listing(t, root)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			check()
		})
	}
}

func TestUnpackRefusesEscapes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("d/", 2100)
	for name, entries := range map[string][]entry{
		"traversal":                    {file("../canary", "dead")},
		"traversal inside":             {file("a/../../canary", "dead")},
		"traversal from the root":      {file("/../canary", "dead")},
		"only dots":                    {folder("..", 0o777)},
		"hard link out":                {hardLink("h", "../canary"), file("h", "dead")},
		"hard link out, from the root": {hardLink("h", "/../../canary")},
		"hard link through a link":     {symlink("l", ".."), hardLink("h", "l/canary")},
		"hard link to nothing":         {hardLink("h", "none")},
		"hard link to a folder":        {folder("d", 0o755), hardLink("h", "d")},
		"hard link to the root":        {hardLink("h", "/")},
		"whiteout of the parent":       {file("d/x", ""), file("d/.wh...", "")},
		"whiteout of the folder":       {file("d/x", ""), file("d/.wh..", "")},
		"whiteout of nothing":          {file("d/x", ""), file("d/.wh.", "")},
		"a file for the root":          {file(".", "x")},
		"a link for the root":          {symlink("./", "..")},
		"below a file":                 {file("a", "1"), file("a/b", "1")},
		"links in a circle":            {symlink("a", "b"), symlink("b", "a"), file("a/x", "1")},
		"links that grow":              {symlink("a", "a/a"), file("a/x", "1")},
		"a path too long":              {file(long+"x", "1")},
		"a name too long":              {file(strings.Repeat("n", 256), "1")},
		"a link without target":        {symlink("a", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, check := rootWithCanary(t)
			err := image.Unpack(t.Context(), root, 1<<20, 1000, layer(t, entries...))
			if !image.IsImageError(err) {
				t.Errorf("got %v, want an image error", err)
			}
			if err != nil && strings.Contains(err.Error(), filepath.Dir(root)) {
				t.Errorf("%q contains a path of this machine", err)
			}
			check()
		})
	}
}

// Symbolic links that point out of the root are kept. Entries whose paths contain such
// a link are created inside the root.
func TestUnpackFollowsNoLinksOut(t *testing.T) {
	t.Parallel()
	root, check := rootWithCanary(t)
	outside := filepath.Dir(root)
	err := image.Unpack(t.Context(), root, 1<<20, 1000,
		layer(t, symlink("out", outside), file("out/canary", "dead"), symlink("dot", ".."), file("dot/canary", "dead"), symlink("f", outside+"/canary"), file("f", "dead")),
		layer(t, symlink("g", "../canary"), fileMode("g", "dead", 0o777), folder("out/deep", 0o777), symlink("h", outside), file("h/.wh.canary", ""), file("h/.wh..wh..opq", "")))
	if err != nil {
		t.Fatal(err)
	}
	check()
	if b, err := os.ReadFile(filepath.Join(root, "canary")); err != nil || string(b) != "dead" {
		t.Errorf("the file is missing in the root: %q, %v", b, err)
	}
}

func TestUnpackLimits(t *testing.T) {
	t.Parallel()
	many := make([]entry, 101)
	for i := range many {
		many[i] = file(fmt.Sprint("f", i), "")
	}
	bomb := gzipped(t, layer(t, file("zeros", strings.Repeat("\x00", 4<<20))))
	huge := layer(t, entry{Header: tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: 5}, Data: []byte("12345")})
	copy(huge[124:], "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff") // size in base-256 encoding
	resum(huge)
	for name, c := range map[string]struct {
		layer []byte
		want  error
	}{
		"a file too large":        {layer(t, file("a", strings.Repeat("a", 1<<20+1))), image.ErrTooLarge},
		"expands too much":        {bomb, image.ErrTooLarge},
		"huge size in the header": {huge, image.ErrTooLarge},
		"too many entries":        {layer(t, many...), image.ErrTooMany},
		"long headers":            {gzipped(t, longHeaders(t)), image.ErrTooLarge},
		"folders never listed":    {layer(t, file(strings.Repeat("d/", 150)+"x", "")), image.ErrTooMany},
		"many blocks":             {layer(t, file("a", strings.Repeat("a", 1<<20-4096)), file("b", "b"), file("c", "c")), image.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, check := rootWithCanary(t)
			if err := image.Unpack(t.Context(), root, 1<<20, 100, c.layer); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			check()
		})
	}
}

// longHeaders returns an archive whose headers are much larger than its files.
func longHeaders(t testing.TB) []byte {
	t.Helper()
	var all []entry
	for i := range 90 {
		all = append(all, entry{Header: tar.Header{Name: fmt.Sprint("f", i), Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", 100_000)}}})
	}
	return layer(t, all...)
}

// resum computes the checksum of a tar header again and stores it in the header.
func resum(h []byte) {
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h[:512] {
		sum += int(b)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestUnpackCompression(t *testing.T) {
	t.Parallel()
	plain := layer(t, file("a", "1"))
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	gz := gzipped(t, plain)
	for name, b := range map[string][]byte{"plain": plain, "gzip": gz, "gzip in two members": append(gzipped(t, plain[:700]), gzipped(t, plain[700:])...), "zstd": z.EncodeAll(plain, nil)} {
		root, _ := rootWithCanary(t)
		if err := image.Unpack(t.Context(), root, 1<<20, 10, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(map[string]string{"a": "-rw-r--r-- 1"}, listing(t, root)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, b := range map[string][]byte{"cut": gz[:len(gz)/2], "cut plain": plain[:512], "text": []byte(strings.Repeat("no archive ", 100)), "half a magic": {0x1f, 0x8b}} {
		root, check := rootWithCanary(t)
		if err := image.Unpack(t.Context(), root, 1<<20, 10, b); !image.IsImageError(err) {
			t.Errorf("%s: got %v, want an image error", name, err)
		}
		check()
	}
}

func TestUnpackKeepsTimesAndDropsAttributes(t *testing.T) {
	t.Parallel()
	root, _ := rootWithCanary(t)
	at := time.Unix(1_600_000_000, 0)
	d, f := folder("d", 0o755), file("d/f", "1")
	d.ModTime, f.ModTime = at, at
	f.PAXRecords = map[string]string{"SCHILY.xattr.user.secret": "x"}
	f.Uid, f.Gid = 4242, 4242
	if err := image.Unpack(t.Context(), root, 1<<20, 10, layer(t, d, f, file("g", ""))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "d/f"} {
		p := filepath.Join(root, name)
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if !info.ModTime().Equal(at) {
			t.Errorf("%s has time %v, want %v", name, info.ModTime(), at)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Getuid() {
			t.Errorf("%s belongs to %d", name, owner)
		}
		if n, err := unix.Listxattr(p, nil); err == nil && n > 0 {
			t.Errorf("%s has attributes", name)
		}
	}
}

func TestUnpackCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, _ := rootWithCanary(t)
	if err := image.Unpack(ctx, root, 1<<20, 10, layer(t, file("a", "1"))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func FuzzUnpack(f *testing.F) {
	lower := layer(f, file("d/x", "1"), symlink("l", ".."), symlink("abs", "/d"), file("e", "1"))
	for _, entries := range [][]entry{
		{file("../canary", "dead")},
		{symlink("l", ".."), file("l/canary", "dead")},
		{hardLink("h", "l/../canary"), file("h", "dead")},
		{file("d/.wh..wh..opq", ""), file("abs/.wh.x", "")},
		{special("e", tar.TypeChar), folder("l", 0)},
		{entry{Header: tar.Header{Name: "pax", Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{"GNU.sparse.major": "1"}}}},
	} {
		f.Add(layer(f, entries...))
		f.Add(gzipped(f, layer(f, entries...)))
	}
	f.Fuzz(func(t *testing.T, upper []byte) {
		root, check := rootWithCanary(t)
		_ = image.Unpack(t.Context(), root, 1<<20, 200, lower, upper)
		check()
	})
}
