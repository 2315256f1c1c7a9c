//go:build linux && (amd64 || arm64)

package overlay_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/idmap"
	"github.com/stint-dev/stint/internal/sandbox/layout"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// layer creates the folder dir with files and returns dir. The keys of files are paths.
// The value "-" stands for a whiteout, "!" for an opaque folder, "/" for a folder, and
// ">" for a symbolic link. Every other value is the content of a file.
func layer(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch files[name] {
		case "-":
			must(t, unix.Mknod(path, unix.S_IFCHR, 0))
		case "/":
			must(t, os.MkdirAll(path, 0o750))
		case "!":
			must(t, os.MkdirAll(path, 0o755), unix.Setxattr(path, layout.OpaqueAttr, []byte("y"), 0))
		case ">":
			must(t, os.Symlink(t.TempDir(), path))
		default:
			must(t, os.WriteFile(path, []byte(files[name]), 0o644))
		}
	}
	return dir
}

func TestMakeTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layers []map[string]string
		upper  bool
		rel    string
		made   string // paths below upper that MakeTarget creates
		err    error
	}{
		"exists":                     {layers: []map[string]string{{}, {"a/b": "/"}}, upper: true, rel: "a/b"},
		"exists, without an upper":   {layers: []map[string]string{{}, {"a/b": "/"}}, rel: "a/b"},
		"missing":                    {layers: []map[string]string{{}, {"x": "/"}}, upper: true, rel: "a/b", made: "a a/b"},
		"partly missing":             {layers: []map[string]string{{"a": "/"}, {"a/c": "/"}}, upper: true, rel: "a/b", made: "a a/b"},
		"missing, without an upper":  {layers: []map[string]string{{}, {"a": "/"}}, rel: "a/b", err: fs.ErrNotExist},
		"removed by a whiteout":      {layers: []map[string]string{{"a": "-"}, {"a/b": "/"}}, upper: true, rel: "a/b", made: "a a/b"},
		"hidden by an opaque folder": {layers: []map[string]string{{"a": "!"}, {"a/b": "x"}}, upper: true, rel: "a/b", made: "a a/b"},
		"file below a folder":        {layers: []map[string]string{{"a/b": "/"}, {"a/b": "x"}}, rel: "a/b"},
		"a file":                     {layers: []map[string]string{{}, {"a": "x"}}, upper: true, rel: "a", err: overlay.ErrNotFolder},
		"a file on the way":          {layers: []map[string]string{{}, {"a": "x"}}, upper: true, rel: "a/b", err: overlay.ErrNotFolder},
		"a link":                     {layers: []map[string]string{{}, {"a": ">"}}, upper: true, rel: "a", err: overlay.ErrNotFolder},
		"a link on the way":          {layers: []map[string]string{{"a": ">"}, {"a/b": "/"}}, upper: true, rel: "a/b", err: overlay.ErrNotFolder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var layers []string
			for i, files := range c.layers {
				layers = append(layers, layer(t, filepath.Join(t.TempDir(), fmt.Sprint(i)), files))
			}
			upper := ""
			if c.upper {
				upper = t.TempDir()
			}
			if err := overlay.MakeTarget(layers, upper, c.rel); !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			var made []string
			if c.upper {
				must(t, filepath.WalkDir(upper, func(path string, _ fs.DirEntry, err error) error {
					if rel := strings.TrimPrefix(path, upper); rel != "" {
						made = append(made, rel[1:])
					}
					return err
				}))
			}
			if diff := cmp.Diff(c.made, strings.Join(made, " ")); diff != "" {
				t.Errorf("made (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMakeTargetKeepsModes checks that a folder that MakeTarget creates in upper has the
// mode of the folder with the same path in the layers.
func TestMakeTargetKeepsModes(t *testing.T) {
	t.Parallel()
	below, upper := layer(t, t.TempDir(), map[string]string{"a": "/"}), t.TempDir()
	must(t, overlay.MakeTarget([]string{below}, upper, "a/b"))
	var want, got unix.Stat_t
	must(t, unix.Stat(filepath.Join(below, "a"), &want), unix.Stat(filepath.Join(upper, "a"), &got))
	if want.Mode != got.Mode || want.Mtim.Sec != got.Mtim.Sec && got.Mtim.Sec < want.Mtim.Sec {
		t.Errorf("mode %o at %v, want %o at %v", got.Mode, got.Mtim, want.Mode, want.Mtim)
	}
}

func TestMakeWorkDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	upper := filepath.Join(dir, "upper")
	if err := overlay.MakeWorkDir(upper); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
	must(t, os.Mkdir(upper, 0o700))
	must(t, overlay.MakeWorkDir(upper))
	// The kernel and a killed server leave such folders in the work folder.
	left := filepath.Join(overlay.WorkDir(upper), "work", "incompat", "volatile")
	must(t, os.MkdirAll(left, 0o700), os.Chmod(filepath.Dir(left), 0), os.Chmod(filepath.Dir(filepath.Dir(left)), 0))
	must(t, overlay.MakeWorkDir(upper))
	if entries, err := os.ReadDir(overlay.WorkDir(upper)); err != nil || len(entries) > 0 {
		t.Errorf("the work folder holds %v, %v", entries, err)
	}
	must(t, overlay.RemoveWorkDir(upper), overlay.RemoveWorkDir(upper))
	must(t, os.WriteFile(filepath.Join(upper, "x"), nil, 0o600))
	if err := overlay.MakeWorkDir(upper); err == nil {
		t.Error("MakeWorkDir accepts a folder with a file")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

const agent = 0x7fff_0000

// TestMountMapped tests both methods of mounting an overlay, several times in parallel.
// They must not change the mount namespace of the process or the user of its threads.
func TestMountMapped(t *testing.T) {
	requirement.Root(t) // without root, servers do not map users; package sandboxtest tests their overlays
	userns, err := idmap.NewUserNamespace(0, agent)
	must(t, err)
	t.Cleanup(func() { userns.Close() })
	own, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	for name, mount := range map[string]func([]string, string, int, int) (int, error){"new": overlay.MountMapped, "old": overlay.MountMappedInNamespace} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for range 8 {
				dir := t.TempDir()
				all.Go(func() {
					checkMapped(t, dir, func(layers []string, upper string) (int, error) { return mount(layers, upper, int(userns.Fd()), agent) })
				})
			}
			all.Wait()
		})
	}
	if now, err := os.Readlink("/proc/self/ns/mnt"); err != nil || now != own {
		t.Errorf("the process is in mount namespace %s, %v; it was in %s", now, err, own)
	}
	if id, err := unix.SetfsuidRetUid(-1); err != nil || id != 0 {
		t.Errorf("the thread is user %d, %v", id, err)
	}
}

func checkMapped(t *testing.T, dir string, mount func([]string, string) (int, error)) {
	check := func(errs ...error) {
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	}
	upper := filepath.Join(dir, "upper")
	layers := []string{filepath.Join(dir, "over"), filepath.Join(dir, "under")}
	check(os.Mkdir(upper, 0o700), os.Mkdir(layers[0], 0o700), os.Mkdir(layers[1], 0o700), overlay.MakeWorkDir(upper))
	check(os.WriteFile(filepath.Join(layers[1], "gone"), []byte("x"), 0o600), os.WriteFile(filepath.Join(layers[0], "f"), []byte("x"), 0o600))
	fd, err := mount(layers, upper)
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(fd)
	check(overlay.AsUser(agent, func() error {
		f, err := unix.Openat(fd, "f", unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = unix.Write(f, []byte("+"))
		return errors.Join(err, unix.Close(f), unix.Unlinkat(fd, "gone", 0), unix.Mkdirat(fd, "new", 0o755))
	}))
	var st unix.Stat_t
	check(unix.Fstatat(fd, "new", &st, 0))
	if st.Uid != agent {
		t.Errorf("its owner inside is user %d", st.Uid)
	}
	for name, kind := range map[string]uint32{"f": unix.S_IFREG, "gone": unix.S_IFCHR, "new": unix.S_IFDIR} {
		check(unix.Lstat(filepath.Join(upper, name), &st))
		if st.Uid != 0 || st.Mode&unix.S_IFMT != kind || st.Rdev != 0 {
			t.Errorf("%s belongs to user %d, mode %o, device %d", name, st.Uid, st.Mode, st.Rdev)
		}
	}
	if b, err := os.ReadFile(filepath.Join(upper, "f")); err != nil || !bytes.Equal(b, []byte("x+")) {
		t.Errorf("changed to %q, %v", b, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(dir)) {
		t.Errorf("mounted on the host (%v):\n%s", err, mounts)
	}
	check(overlay.RemoveWorkDir(upper))
}

func TestMountMappedUnsupported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := overlay.MountMapped([]string{dir, dir}, "", -1, agent); !errors.Is(err, overlay.ErrUnsupported) {
		t.Errorf("one layer twice: %v, want %v", err, overlay.ErrUnsupported)
	}
}
