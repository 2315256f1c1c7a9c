package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/testkit/requirement"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// forest is a tree that contains its items by path. The names in the items are not used. The
// mode of a folder contains unix.S_IFDIR.
type forest map[string]item

func (f forest) items() (items []item) {
	for p, i := range f {
		i.name = p
		if i.mode&unix.S_IFDIR != 0 {
			i.name += "/"
		}
		i.mode &= 0o777
		items = append(items, i)
	}
	return items
}

func (f forest) isDir(p string) bool { return p == "." || f[p].mode&unix.S_IFDIR != 0 }

// remove removes a path and all paths below it.
func (f forest) remove(p string) {
	maps.DeleteFunc(f, func(q string, _ item) bool { return q == p || strings.HasPrefix(q, p+"/") })
}

// grow adds an entry, or replaces an existing one, n times at random.
func (f forest) grow(r *rand.Rand, n int) {
	for range n {
		dirs := []string{"."}
		for _, p := range slices.Sorted(maps.Keys(f)) {
			if f.isDir(p) && strings.Count(p, "/") < 4 {
				dirs = append(dirs, p)
			}
		}
		name := fmt.Sprintf("%c%s", 'a'+r.IntN(26), strings.Repeat([]string{"-", "x", "!"}[r.IntN(3)], r.IntN(3)))
		if r.IntN(2) == 0 {
			name += strings.Repeat("n", 220) // long names, so that few entries fill several pages
		}
		p := path.Join(dirs[r.IntN(len(dirs))], name)
		if there := slices.Sorted(maps.Keys(f)); len(there) > 0 && r.IntN(5) == 0 {
			p = there[r.IntN(len(there))]
		}
		i := item{mode: int64([]int{0o644, 0o755, 0o600}[r.IntN(3)]), mtime: time.Unix(int64(r.IntN(1000)), 0)}
		switch r.IntN(6) {
		case 0, 1:
			i.mode |= unix.S_IFDIR | 0o700
		case 2:
			i.target, i.mode = "somewhere", 0o777
		case 3:
		default:
			i.body = text(byte(r.IntN(40)), 1+r.IntN(300))
		}
		if !f.isDir(p) || i.mode&unix.S_IFDIR == 0 {
			f.remove(p)
		}
		f[p] = i
	}
}

// layer writes the upper layer of an overlay on base with the entries of want.
type layer struct {
	t    testing.TB
	dir  string
	r    *rand.Rand
	base forest
	want forest
}

// write adds the changes from base to want below the folder p to the layer. If the folder is
// opaque, it hides the base, and write adds all entries of want.
func (l *layer) write(p string, opaque bool) {
	names := map[string]bool{}
	for q := range l.want {
		if path.Dir(q) == p {
			names[q] = true
		}
	}
	for q := range l.base {
		if path.Dir(q) == p && !names[q] && !opaque {
			l.whiteout(q)
		}
	}
	for q := range names {
		l.entry(q, opaque)
	}
}

func (l *layer) entry(p string, all bool) {
	i := l.want[p]
	was, there := l.base[p]
	on := filepath.Join(l.dir, p)
	switch {
	case l.want.isDir(p):
		l.must(os.Mkdir(on, 0o700))
		opaque := all || !l.base.isDir(p) || l.r.IntN(6) == 0
		if opaque && l.base.isDir(p) && !all || l.r.IntN(9) == 0 && opaque {
			l.must(unix.Setxattr(on, []string{"trusted.overlay.opaque", "user.overlay.opaque"}[l.r.IntN(2)], []byte("y"), 0))
		}
		l.write(p, opaque)
		l.must(os.Chmod(on, fs.FileMode(i.mode&0o777)))
	case !all && there && cmp.Equal(was, i, cmp.AllowUnexported(item{})) && l.r.IntN(8) > 0:
		return // unchanged: the entry of the lower layer is visible
	case i.target != "":
		l.must(os.Symlink(i.target, on))
	default:
		l.must(os.WriteFile(on, i.body, 0o600))
		l.must(os.Chmod(on, fs.FileMode(i.mode)))
	}
	at := unix.NsecToTimespec(i.mtime.UnixNano())
	l.must(unix.UtimesNanoAt(unix.AT_FDCWD, on, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
}

func (l *layer) whiteout(p string) {
	on := filepath.Join(l.dir, p)
	if l.r.IntN(3) > 0 {
		l.must(unix.Mknod(on, unix.S_IFCHR, 0))
		return
	}
	l.must(os.WriteFile(on, nil, 0o600))
	l.must(unix.Setxattr(on, []string{"trusted.overlay.whiteout", "user.overlay.whiteout"}[l.r.IntN(2)], []byte("y"), 0))
}

func (l *layer) must(err error) {
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestSoakCommitOverlayEqualsCommitDir changes random trees and commits the changes as upper
// layers. The result must equal a commit of the whole changed tree.
func TestSoakCommitOverlayEqualsCommitDir(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		base := forest{}
		base.grow(r, rapid.IntRange(0, 250).Draw(rt, "entries"))
		want := maps.Clone(base)
		for range rapid.IntRange(0, 6).Draw(rt, "removals") {
			if paths := slices.Sorted(maps.Keys(want)); len(paths) > 0 {
				want.remove(paths[r.IntN(len(paths))])
			}
		}
		want.grow(r, rapid.IntRange(0, 6).Draw(rt, "changes"))
		from := stored(t, l, "", base.items()...)
		upper := t.TempDir()
		(&layer{t, upper, r, base, want}).write(".", false)
		got, err := l.CommitOverlay(t.Context(), org, from.Digest, upper, files.DirOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		if expected := stored(t, l, "", want.items()...); got != expected {
			rt.Errorf("CommitOverlay = %+v, want %+v", got, expected)
		}
		if diff := cmp.Diff(itemLooks(want.items()), archiveLooks(t, readArchive(t, l, got.Digest))); diff != "" {
			rt.Errorf("the archive (-want +got):\n%s", diff)
		}
		changes, err := l.DiffAll(t.Context(), org, from.Digest, got.Digest)
		if err != nil {
			rt.Fatal(err)
		}
		told := map[string]string{}
		for _, c := range changes {
			told[c.Path] = c.Change
		}
		if diff := cmp.Diff(differences(base, want), told); diff != "" || len(told) != len(changes) {
			rt.Errorf("Diff returns %d changes (-want +got):\n%s", len(changes), diff)
		}
	})
}

// differences returns the change ("added", "removed", or "changed") of each path that
// differs between two trees. It ignores modification times.
func differences(from, to forest) map[string]string {
	out := map[string]string{}
	for p := range from {
		out[p] = "removed"
	}
	for p, b := range to {
		a, ok := from[p]
		a.mtime = b.mtime
		switch {
		case !ok:
			out[p] = "added"
		case cmp.Equal(a, b, cmp.AllowUnexported(item{}), cmpopts.EquateEmpty()):
			delete(out, p)
		default:
			out[p] = "changed"
		}
	}
	return out
}

// TestSoakCommitMountedOverlay changes files through a mounted overlay and commits its upper
// layer. The result must equal a commit of the mounted folder.
func TestSoakCommitMountedOverlay(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	items := append(oddTree(), item{name: "gone/", mode: 0o755}, item{name: "gone/f", body: []byte("x")}, item{name: "renewed/", mode: 0o755}, item{name: "renewed/f"})
	base := stored(t, l, "", items...)
	top := onExt4OrTmpfs(t)
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lower, merged, upper := filepath.Join(top, "lower"), filepath.Join(top, "merged"), filepath.Join(top, "upper")
	if err := l.Checkout(t.Context(), org, base.Digest, lower); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s/work,redirect_dir=off,metacopy=off,index=off", lower, upper, top)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	}()
	in := func(name string) string { return filepath.Join(merged, name) }
	for _, err := range []error{
		os.RemoveAll(in("gone")), os.RemoveAll(in("renewed")), os.Mkdir(in("renewed"), 0o750),
		os.WriteFile(in("renewed/other"), []byte("new"), 0o600),
		os.Remove(in("d/f")), os.Remove(in("secret")), os.Mkdir(in("secret"), 0o755),
		os.WriteFile(in("secret/inside"), []byte("1"), 0o644),
		os.Chmod(in("large.bin"), 0o600), os.Rename(in("small.txt"), in("d/moved.txt")),
		os.RemoveAll(in("readonly-folder")), os.WriteFile(in("readonly-folder"), []byte("a file now"), 0o644),
		os.Symlink("elsewhere", in("new-link")), os.WriteFile(in("script"), []byte("changed"), 0o755),
		os.Mkdir(in("empty-folder/deep"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := l.CommitOverlay(t.Context(), org, base.Digest, upper, files.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := l.CommitDir(t.Context(), org, "", merged, files.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("CommitOverlay = %+v, CommitDir of the overlay %+v", got, want)
	}
	out := t.TempDir()
	if err := l.Checkout(t.Context(), org, got.Digest, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(folderLooks(t, merged), folderLooks(t, out)); diff != "" {
		t.Errorf("the checkout (-overlay +got):\n%s", diff)
	}
}

// onExt4OrTmpfs returns a folder that can contain the upper layer of an overlay. It mounts a
// tmpfs, because the temporary folder may be in an overlay, which cannot contain upper
// layers.
func onExt4OrTmpfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestCommitOverlayStoresWhatChanged checks that a commit stores only the changed chunks and
// pages.
func TestCommitOverlayStoresWhatChanged(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	var items []item
	for i := range 8000 {
		items = append(items, item{name: fmt.Sprintf("d%02d/some-file-%05d", i/200, i), body: []byte{byte(i), byte(i >> 8)}})
	}
	big := noise(1, 8<<20)
	items = append(items, item{name: "big", body: big}, item{name: "d07/", mode: 0o755})
	base := stored(t, l, "", items...)
	upper := t.TempDir()
	write(t, upper, map[string]string{"d07/some-file-01500": "changed", "big": string(big) + "more"})
	before, keys := s.bytes(), len(s.keys())
	ref, err := l.CommitOverlay(t.Context(), org, base.Digest, upper, files.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if grown := s.bytes() - before; grown > 2200<<10 || len(s.keys()) != keys+2 {
		t.Errorf("the store grows by %d bytes and %d objects, want a chunk, some pages and a root in two objects", grown, len(s.keys())-keys)
	}
	if ref.Files != base.Files || ref.Size != base.Size+4+5 {
		t.Errorf("CommitOverlay = %+v after %+v", ref, base)
	}
	before = s.bytes()
	if again, err := l.CommitOverlay(t.Context(), org, ref.Digest, t.TempDir(), files.DirOptions{}); err != nil || again != ref || s.bytes() != before {
		t.Errorf("without a change it is %+v, %v, and the store grows by %d bytes", again, err, s.bytes()-before)
	}
}

func TestCommitOverlayRefusesPartialFiles(t *testing.T) {
	t.Parallel()
	requirement.Root(t) // to set the attributes trusted.overlay.*
	l := newLibrary(t, newMemory(), files.Options{})
	base := stored(t, l, "", item{name: "f", body: []byte("x")}, item{name: "d/", mode: 0o755})
	for _, mark := range []string{"redirect", "metacopy"} {
		for _, prefix := range []string{"trusted.overlay.", "user.overlay."} {
			for _, name := range []string{"f", "d"} {
				upper := t.TempDir()
				write(t, upper, map[string]string{"f": "", "d/x": ""})
				if err := unix.Setxattr(filepath.Join(upper, name), prefix+mark, []byte("something longer"), 0); err != nil {
					t.Fatal(err)
				}
				ref, err := l.CommitOverlay(t.Context(), org, base.Digest, upper, files.DirOptions{})
				wantRefused(t, ref, err, "metacopy")
			}
		}
	}
}

// TestCommitOverlayLimits checks limits that the base and the upper layer exceed together,
// but the upper layer alone does not.
func TestCommitOverlayLimits(t *testing.T) {
	t.Parallel()
	s := newMemory()
	base := stored(t, newLibrary(t, s, files.Options{}), "", item{name: "a", body: []byte("1234")}, item{name: "b"}, item{name: "c"})
	upper := t.TempDir()
	write(t, upper, map[string]string{"x": "5"})
	for name, c := range map[string]struct {
		limits  files.Limits
		options files.DirOptions
		ok      bool
	}{
		"met":     {files.Limits{Entries: 4, TotalBytes: 5}, files.DirOptions{MaxFiles: 4}, true},
		"entries": {files.Limits{Entries: 3}, files.DirOptions{}, false},
		"bytes":   {files.Limits{TotalBytes: 4}, files.DirOptions{}, false},
		"files":   {files.Limits{}, files.DirOptions{MaxFiles: 3}, false},
	} {
		l := newLibrary(t, s, files.Options{Limits: c.limits})
		ref, err := l.CommitOverlay(t.Context(), org, base.Digest, upper, c.options)
		if c.ok && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !c.ok {
			wantRefused(t, ref, err, "more than")
		}
	}
}

// TestCommitOverlayLeavesOut checks that an ignored or special entry hides the
// entry of the base, as in the overlay.
func TestCommitOverlayLeavesOut(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	base := stored(t, l, "", item{name: "ignored", body: []byte("1")}, item{name: "pipe", body: []byte("2")}, item{name: "stays", body: []byte("3")})
	upper := t.TempDir()
	write(t, upper, map[string]string{"ignored/x": "5"})
	if err := unix.Mkfifo(filepath.Join(upper, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	var skipped []string
	ref, err := l.CommitOverlay(t.Context(), org, base.Digest, upper, files.DirOptions{
		Ignore: func(path string, _ bool) bool { return path == "ignored" },
		OnSkip: func(path string, _ fs.FileMode) { skipped = append(skipped, path) },
	})
	if want := stored(t, l, "", item{name: "stays", body: []byte("3")}); err != nil || ref != want {
		t.Errorf("CommitOverlay = %+v, %v, want %+v", ref, err, want)
	}
	if diff := cmp.Diff([]string{"pipe"}, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if _, err := l.CommitOverlay(t.Context(), org, strings.Repeat("0", 64), upper, files.DirOptions{}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("above a base that is not there: %v", err)
	}
}
