package sandboxtest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
)

// makeLayer creates a folder with files on the host and returns its path. files maps the
// path of each file to its kind: "->x" is a symbolic link to x, "-" a whiteout, "" a
// folder, and "!" an opaque folder. Any other text is the content of a regular file.
func (w *world) makeLayer(name string, files map[string]string) string {
	w.Helper()
	dir := filepath.Join(w.dir, name)
	w.must(os.MkdirAll(dir, 0o700))
	for _, f := range slices.Sorted(maps.Keys(files)) {
		path, text := filepath.Join(dir, f), files[f]
		w.must(os.MkdirAll(filepath.Dir(path), 0o755))
		target, link := strings.CutPrefix(text, "->")
		switch {
		case link:
			w.must(os.Symlink(target, path))
		case text == "-":
			w.must(unix.Mknod(path, unix.S_IFCHR, 0))
		case text == "", text == "!":
			w.must(os.MkdirAll(path, 0o755))
			if text == "!" {
				w.must(unix.Setxattr(path, sandbox.OpaqueAttr, []byte("y"), 0))
			}
		default:
			w.must(os.WriteFile(path, []byte(text), 0o644))
		}
	}
	return dir
}

// threeLayers returns a mount over the workspace with an upper folder and three layers. The
// higher layers hide some files of the lower layers and add others.
func (w *world) threeLayers() sandbox.Mount {
	w.Helper()
	upper := filepath.Join(w.dir, "changes", "upper")
	w.must(os.MkdirAll(upper, 0o700))
	return sandbox.Mount{
		Target: sandbox.WorkspaceDir, Upper: upper,
		Layers: []string{
			w.makeLayer("top", map[string]string{"t": "t2", "dir/y": "y2"}),
			w.makeLayer("middle", map[string]string{"gone": "-", "dir/z": "-", "hidden": "!", "hidden/new": "new", "link": "->a"}),
			w.makeLayer("bottom", map[string]string{
				"a": "a0", "keep": "keep0", "gone": "x", "dir/x": "x0", "dir/y": "y0", "dir/z": "z0", "hidden/old": "old",
				"replaced/f": "f0", "replaced/g": "g0", "deep/er/f": "f0", "closed/f": "f0",
			}),
		},
	}
}

// mountWith returns the sandbox that give prepares with the mounts. It fails the test if
// give returns an error.
func (w *world) mountWith(give mountFunc, s sandbox.Spec, mounts ...sandbox.Mount) sandbox.Sandbox {
	w.Helper()
	b, err := give(s, mounts...)
	if err != nil {
		w.Fatalf("giving mounts: %v", err)
	}
	return b
}

// runToEnd runs a program in the sandbox b and closes b. It returns the program's output.
// The program must exit with code 0.
func (w *world) runToEnd(b sandbox.Sandbox, args ...string) string {
	w.Helper()
	r := w.start(b, command(args...))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.must(r.Close(w.Context()))
	return r.stdout.String()
}

// hashDirs returns a hash of the contents, metadata, and attribute names of all files
// in the folders.
func (w *world) hashDirs(dirs ...string) string {
	w.Helper()
	sum := sha256.New()
	for _, dir := range dirs {
		w.must(filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				return err
			}
			attrs := make([]byte, 4096)
			n, err := unix.Llistxattr(path, attrs)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s %o %d %d %d %d %v %q\n", path, st.Mode, st.Uid, st.Gid, st.Rdev, st.Size, st.Mtim, attrs[:n])
			if st.Mode&unix.S_IFMT == unix.S_IFREG {
				b, err := os.ReadFile(path)
				sum.Write(b)
				return err
			}
			return nil
		}))
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// changes lists the entries of an upper folder, sorted. Each element consists of the
// entry's path, a space, and a description: "gone" for a whiteout, "hides" for an opaque
// folder, "folder" for any other folder, the content of a regular file, or the type of
// any other file.
func (w *world) changes(upper string) []string {
	w.Helper()
	var list []string
	w.must(filepath.WalkDir(upper, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == upper {
			return err
		}
		rel, what := strings.TrimPrefix(path, upper+"/"), e.Type().String()
		switch {
		case isWhiteout(path):
			what = "gone"
		case e.IsDir():
			what = "folder"
			if isOpaque(path) {
				what = "hides"
			}
		case e.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what = string(b)
		}
		list = append(list, rel+" "+what)
		return nil
	}))
	slices.Sort(list)
	return list
}

func isWhiteout(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

func isOpaque(path string) bool {
	value := make([]byte, 8)
	n, err := unix.Lgetxattr(path, sandbox.OpaqueAttr, value)
	return err == nil && string(value[:n]) == "y"
}
