package sandboxtest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
)

func init() {
	maps.Copy(overlayCases, map[string]func(*world, laying){
		"what is read":            layersRead,
		"what is changed":         layersChanged,
		"changes are a layer":     changesAsLayer,
		"not for writing":         layersReadOnly,
		"the same at two places":  layersAliased,
		"the agent's own folders": layersAsFolders,
		"mounts inside":           mountsInLayers,
		"links on the way":        linksInLayers,
		"as many as there may be": manyLayers,
		"folders without rights":  lockedLayers,
		"what cannot be laid":     layersMissing,
		"marks are not forged":    marksForged,
		"disk: new files":         func(w *world, with laying) { layersFull(w, with, "waste", "the workspace", "24") },
		"disk: a deleted file":    func(w *world, with laying) { layersFull(w, with, "waste", "a deleted file", "24") },
		"disk: a mapped file":     func(w *world, with laying) { layersFull(w, with, "waste", "a mapped file", "24") },
		"disk: a big file's copy": func(w *world, with laying) { layersFull(w, with, "append", "big") },
		"disk: what is only read": layersNotCounted,
	})
	controls["marks are found"] = marksControl
}

// layer makes a folder of the host: a text is a file's, "->x" a link, "-" tells
// that the file is gone, "" a folder, "!" a folder that hides.
func (w *world) layer(name string, files map[string]string) string {
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

// threeLayers is a mount in which each has something to say.
func (w *world) threeLayers() sandbox.Mount {
	w.Helper()
	upper := filepath.Join(w.dir, "changes", "upper")
	w.must(os.MkdirAll(upper, 0o700))
	return sandbox.Mount{
		Target: sandbox.WorkspaceDir, Upper: upper,
		Layers: []string{
			w.layer("top", map[string]string{"t": "t2", "dir/y": "y2"}),
			w.layer("middle", map[string]string{"gone": "-", "dir/z": "-", "hidden": "!", "hidden/new": "new", "link": "->a"}),
			w.layer("bottom", map[string]string{
				"a": "a0", "keep": "keep0", "gone": "x", "dir/x": "x0", "dir/y": "y0", "dir/z": "z0", "hidden/old": "old",
				"replaced/f": "f0", "replaced/g": "g0", "deep/er/f": "f0", "closed/f": "f0",
			}),
		},
	}
}

// with gives the sandbox of a case.
func (w *world) with(give laying, s sandbox.Spec, mounts ...sandbox.Mount) sandbox.Sandbox {
	w.Helper()
	b, err := give(s, mounts...)
	if err != nil {
		w.Fatalf("giving mounts: %v", err)
	}
	return b
}

// runWith runs a program to its end, and closes the sandbox.
func (w *world) runWith(b sandbox.Sandbox, args ...string) string {
	w.Helper()
	r := w.start(b, program(args...))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.must(r.Close(w.Context()))
	return r.stdout.String()
}

// digest tells all that a folder of the host holds.
func (w *world) digest(dirs ...string) string {
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

// changes tells what an upper folder holds.
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

func layersRead(w *world, with laying) {
	m, s := w.threeLayers(), w.spec()
	before := w.digest(m.Layers...)
	got := w.runWith(w.with(with, s, m), "show", sandbox.WorkspaceDir)
	want := "a a0\nclosed/f f0\ndeep/er/f f0\ndir/x x0\ndir/y y2\nhidden/new new\nkeep keep0\nlink -> a\nreplaced/f f0\nreplaced/g g0\nt t2\n"
	w.want("read inside", want, got)
	w.want("the layers", before, w.digest(m.Layers...))
	w.want("changes", "[]", fmt.Sprint(w.changes(m.Upper)))
}

// layersChanged is what snapshots live on.
func layersChanged(w *world, with laying) {
	m, s := w.threeLayers(), w.spec()
	before := w.digest(m.Layers...)
	got := w.runWith(w.with(with, s, m), "change")
	w.want("read inside", "closed/f f0+\ndir/w y2\ndir/x x0+\nhidden/new new\nkeep changed\nlink -> a\nnewer/file new\nreplaced/h h\nt t2\n", got)
	w.want("the layers", before, w.digest(m.Layers...))
	want := []string{
		"a gone", "closed folder", "closed/f f0+", "deep gone", "dir folder", "dir/w y2", "dir/x x0+", "dir/y gone", "keep changed",
		"newer hides", "newer/file new", "replaced hides", "replaced/h h",
	}
	w.want("changes", strings.Join(want, "\n"), strings.Join(w.changes(m.Upper), "\n"))
	w.wantOurs(m.Upper)
	var st unix.Stat_t
	w.must(unix.Stat(filepath.Join(m.Upper, "closed"), &st))
	if st.Mode&0o777 != 0o555 {
		w.Errorf("the closed folder has mode %o", st.Mode)
	}
	w.wantNothingLeft(m.Upper)
}

// changesAsLayer: what one run changed lies over the next one's layers.
func changesAsLayer(w *world, with laying) {
	m := w.threeLayers()
	want := w.runWith(w.with(with, w.spec(), m), "change")
	next := m
	next.Layers, next.Upper = append([]string{m.Upper}, m.Layers...), filepath.Join(w.dir, "changes", "next")
	w.must(os.Mkdir(next.Upper, 0o700))
	before := w.digest(next.Layers...)
	w.want("the next run sees", want, w.runWith(w.with(with, w.spec(), next), "show", sandbox.WorkspaceDir))
	w.want("the layers", before, w.digest(next.Layers...))
	w.must(removeAll(filepath.Dir(m.Upper)))
}

// wantNothingLeft looks at what is left beside an upper folder, and removes all.
func (w *world) wantNothingLeft(upper string) {
	w.Helper()
	entries, err := os.ReadDir(filepath.Dir(upper))
	w.must(err)
	if len(entries) != 1 {
		w.Errorf("beside the changes there is left: %v", entries)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	w.must(err)
	if bytes.Contains(mounts, []byte(w.dir)) {
		w.Errorf("it is mounted on the host:\n%s", mounts)
	}
	w.must(removeAll(filepath.Dir(upper)))
}

func layersReadOnly(w *world, with laying) {
	m := w.threeLayers()
	m.Upper, m.Target, m.Alias = "", "/data", []string{"/mnt/again"}
	before := w.digest(m.Layers...)
	got := w.runWith(w.with(with, w.spec(), m), "refused", "/data", "/mnt/again")
	w.want("inside", "refused", got)
	w.want("the layers", before, w.digest(m.Layers...))
	again := m
	again.Target, again.Alias = sandbox.WorkspaceDir, nil
	w.want("inside", "refused", w.runWith(w.with(with, w.spec(), again), "refused", sandbox.WorkspaceDir))
}

func layersAliased(w *world, with laying) {
	m := w.threeLayers()
	m.Alias = []string{"/d", "/mnt/a/longer/place"}
	w.runWith(w.with(with, w.spec(), m), "aliases", sandbox.WorkspaceDir, "/d", "/mnt/a/longer/place")
	want := "0 from /workspace\n1 from /d\n2 from /mnt/a/longer/place"
	w.want("changes", want, strings.Join(w.changes(m.Upper), "\n"))
}

// layersAsFolders are both of the agent's own folders; what was shown there
// before is not seen.
func layersAsFolders(w *world, with laying) {
	m, s := w.threeLayers(), w.spec()
	home := sandbox.Mount{Target: sandbox.HomeDir, Layers: []string{w.layer("home", map[string]string{".state": "s0"})}, Upper: filepath.Join(w.dir, "changes", "home")}
	w.must(os.Mkdir(home.Upper, 0o700))
	w.must(os.WriteFile(filepath.Join(s.Workspace, "under"), []byte("x"), 0o600))
	b := w.with(with, s, m, home)
	got := w.runWith(b, "write", "t", "changed", sandbox.HomeDir+"/.state", "s1")
	w.want("output", "", got)
	w.want("the workspace's changes", "[t changed]", fmt.Sprint(w.changes(m.Upper)))
	w.want("the home's changes", "[.state s1]", fmt.Sprint(w.changes(home.Upper)))
	if entries, err := os.ReadDir(s.Workspace); err != nil || len(entries) != 1 {
		w.Errorf("the covered folder holds %v, %v", entries, err)
	}
}

// mountsInLayers: what the folders of a mount need is made without hiding any
// of the layers.
func mountsInLayers(w *world, with laying) {
	m := w.threeLayers()
	given := w.given("given", "given")
	b := w.with(with, w.spec(), m, sandbox.Mount{Source: given, Target: sandbox.WorkspaceDir + "/deep/in/put"}, sandbox.Mount{Source: given, Target: sandbox.WorkspaceDir + "/gone/put"}, sandbox.Mount{Source: given, Target: sandbox.WorkspaceDir + "/dir"})
	got := w.runWith(b, "read", "deep/in/put/f", "gone/put/f", "dir/f", "deep/er/f")
	w.want("read inside", "givengivengivenf0", got)
	w.want("changes", "[deep folder deep/in folder deep/in/put folder gone folder gone/put folder]", strings.ReplaceAll(fmt.Sprint(w.changes(m.Upper)), "hides", "folder"))
}

// linksInLayers lead nowhere.
func linksInLayers(w *world, with laying) {
	victim := filepath.Join(w.dir, "victim")
	w.must(os.Mkdir(victim, 0o700))
	m := w.threeLayers()
	m.Layers = append(m.Layers, w.layer("links", map[string]string{"abs": "->" + victim, "up": "->../victim", "in": "->dir", "file": "x"}))
	for _, at := range []string{"abs/put", "up/put", "in/put", "abs", "file/put", "file"} {
		_, err := with(w.spec(), m, sandbox.Mount{Source: w.suite.tools, Target: sandbox.WorkspaceDir + "/" + at})
		w.wantSentence(err)
		w.must(removeAll(filepath.Dir(m.Upper)))
		w.must(os.MkdirAll(m.Upper, 0o700))
	}
	if entries, err := os.ReadDir(victim); err != nil || len(entries) > 0 {
		w.Errorf("a link was followed: %v, %v", entries, err)
	}
}

func manyLayers(w *world, with laying) {
	m := w.threeLayers()
	m.Layers = nil
	var want strings.Builder
	for i := range sandbox.MaxLayers {
		text := fmt.Sprintf("%03d", i)
		m.Layers = append(m.Layers, w.layer("layer"+text, map[string]string{text: text, "top": text}))
		want.WriteString(text + " " + text + "\n")
	}
	w.want("read inside", want.String()+"top 000\n", w.runWith(w.with(with, w.spec(), m), "show", sandbox.WorkspaceDir))
}

// lockedLayers: what the agent locks is its own, and a snapshot's, as ever.
func lockedLayers(w *world, with laying) {
	m := w.threeLayers()
	w.runWith(w.with(with, w.spec(), m), "lock")
	w.wantHarmless(m.Upper)
	w.wantNothingLeft(m.Upper)
}

// layersMissing leaves nothing behind, and a sandbox that can be given others.
func layersMissing(w *world, with laying) {
	m := w.threeLayers()
	missing := filepath.Join(w.dir, "missing")
	for _, bad := range []sandbox.Mount{
		{Target: "/data", Layers: []string{m.Layers[0], missing}, Upper: m.Upper},
		{Target: "/data", Layers: []string{m.Layers[0], missing}},
		{Target: "/data", Layers: m.Layers, Upper: missing},
		{Target: toolsDir, Layers: m.Layers, Upper: m.Upper},
		{Target: "/proc/x", Layers: m.Layers},
	} {
		_, err := with(w.spec(), bad)
		w.wantSentence(err)
	}
	b, err := with(w.spec(), sandbox.Mount{Target: "/data", Layers: append(slices.Clone(m.Layers), m.Layers[0]), Upper: m.Upper})
	if !errors.Is(err, sandbox.ErrOverlay) {
		w.Errorf("a layer twice: %v, want %v", err, sandbox.ErrOverlay)
	}
	if b != nil {
		w.must(b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{{Source: w.given("data", "data"), Target: "/data"}}))
		w.want("read inside", "data", w.runWith(b, "read", "/data/f"))
	}
	w.must(os.WriteFile(filepath.Join(m.Upper, "x"), nil, 0o600))
	if _, err := with(w.spec(), m); err == nil {
		w.Error("an upper folder that is not empty is accepted")
	}
	w.wantNothingLeft(m.Upper)
}

// marksForged: an agent that makes marks itself deletes nothing and hides
// nothing in a snapshot, and cannot take back what it did.
func marksForged(w *world, with laying) {
	m := w.threeLayers()
	for _, l := range m.Layers { // in the agent's sight
		w.must(os.MkdirAll(filepath.Join(l, "victim", "sub"), 0o755))
		w.must(os.WriteFile(filepath.Join(l, "victim", "file"), []byte("x"), 0o644))
	}
	before := w.digest(m.Layers...)
	got := w.runWith(w.with(with, w.spec(), m), "forge")
	w.want("forged marks seen inside", "", got)
	w.want("forged marks", "", strings.Join(w.marks(m.Upper), "\n"))
	if !isOpaque(filepath.Join(m.Upper, "replaced")) {
		w.Error("the agent took a mark away")
	}
	w.want("the layers", before, w.digest(m.Layers...))
}

// marks lists those that tell of what was never done.
func (w *world) marks(upper string) []string {
	w.Helper()
	var found []string
	w.must(filepath.WalkDir(upper, func(path string, _ fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, upper+"/")
		if err != nil || strings.HasPrefix(rel, "replaced") || strings.HasPrefix(rel, "own") && isOpaque(path) {
			return err // "own" is new: there is nothing that it could hide
		}
		if isWhiteout(path) {
			found = append(found, rel+" is gone")
		}
		for _, attr := range marksOfOverlays {
			value := make([]byte, 256)
			if n, err := unix.Lgetxattr(path, attr, value); err == nil && strings.Contains(string(value[:n]), "forged") || attr == sandbox.OpaqueAttr && isOpaque(path) {
				found = append(found, rel+" has "+attr)
			}
		}
		return nil
	}))
	return found
}

// marksControl: where nobody hinders it, the program makes them.
func marksControl(w *world) {
	w.layer("", map[string]string{"victim/sub/": "", "victim/file": "x", "replaced/f": "x"})
	if _, err := w.bare("forge"); err != nil {
		w.Fatal(err)
	}
	found := strings.Join(w.marks(w.dir), "\n")
	for _, want := range []string{"victim has " + sandbox.OpaqueAttr, "victim/file has " + sandbox.OverlayAttrs + "redirect", "whiteout is gone", "moved is gone"} {
		if !strings.Contains(found, want) {
			w.Errorf("%q is not among\n%s", want, found)
		}
	}
}

// layersFull fills the disk. The limit may be passed for a moment.
func layersFull(w *world, with laying, args ...string) {
	if !w.suite.Limits.Disk {
		return // as declared
	}
	s, m := w.spec(), w.threeLayers()
	s.Resources.Disk = bombDisk
	m.Alias = []string{"/again"}
	w.must(os.WriteFile(filepath.Join(m.Layers[2], "big"), bytes.Repeat([]byte("x"), excess<<20), 0o644))
	b := w.with(with, s, m)
	r := w.start(b, program(args...))
	if e := w.wait(r); e.Cause != sandbox.DiskFull {
		w.Errorf("exit %+v, want cause %s; stderr %s", e, sandbox.DiskFull, r.stderr)
	}
	w.must(r.Close(w.Context()))
	w.wantNothingLeft(m.Upper)
}

// layersNotCounted: what is read of layers takes no room, what is written is
// counted once, however many places show it.
func layersNotCounted(w *world, with laying) {
	if !w.suite.Limits.Disk {
		return // as declared
	}
	s, m := w.spec(), w.threeLayers()
	s.Resources.Disk = bombDisk
	m.Alias = []string{"/again"}
	w.must(os.WriteFile(filepath.Join(m.Layers[1], "big"), bytes.Repeat([]byte("x"), 2*bombDisk), 0o644))
	b := w.with(with, s, m)
	r := w.start(b, program("write", "x", strings.Repeat("x", 100_000)))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.kill(r, 0)
	u, err := r.Usage(w.Context())
	w.must(err)
	if u.Disk < 100_000 || u.Disk > 200_000 {
		w.Errorf("usage tells %d bytes on disk", u.Disk)
	}
}

var marksOfOverlays = func() []string {
	var list []string
	for _, prefix := range []string{sandbox.OverlayAttrs, "trusted.overlay."} {
		for _, name := range []string{"opaque", "whiteout", "redirect", "metacopy", "origin", "impure", "nlink", "upper", "xwhiteouts", "protattr", "uuid"} {
			list = append(list, prefix+name)
		}
	}
	return list
}()

func init() {
	programs["show"] = showProgram
	programs["change"] = changeProgram
	programs["append"] = appendProgram
	programs["refused"] = refusedProgram
	programs["aliases"] = aliasesProgram
	programs["lock"] = lockProgram
	programs["forge"] = forgeProgram
}

// showProgram tells all files below a folder.
func showProgram(g Guest, args []string) error {
	return filepath.WalkDir(args[0], func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(path, args[0]+"/")
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			fmt.Fprintf(g.Stdout, "%s -> %s\n", rel, target)
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(g.Stdout, "%s %s\n", rel, b)
		return err
	})
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// changeProgram does to layers all that can be done, and tells what it sees.
func changeProgram(g Guest, _ []string) error {
	for i, step := range []func() error{
		func() error { return os.WriteFile("keep", []byte("changed"), 0o644) },
		func() error { return appendTo("dir/x", "+") },
		func() error { return os.Remove("a") },
		func() error { return os.Rename("dir/y", "dir/w") },
		func() error { return os.RemoveAll("replaced") },
		func() error { return os.Mkdir("replaced", 0o755) },
		func() error { return os.WriteFile("replaced/h", []byte("h"), 0o644) },
		func() error { return os.RemoveAll("deep") },
		func() error { return os.Mkdir("new", 0o755) },
		func() error { return os.WriteFile("new/file", []byte("new"), 0o644) },
		func() error { return os.Rename("new", "newer") },
		func() error { return os.Chmod("closed", 0o555) },
		func() error { return appendTo("closed/f", "+") }, // the file is open, its folder is not
		func() error { // made and gone again
			return errors.Join(os.WriteFile("short", nil, 0o644), os.Remove("short"), os.Mkdir("brief", 0o755), os.Remove("brief"))
		},
	} {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if err := os.Rename("hidden", "moved"); err != nil && !errors.Is(err, syscall.EXDEV) {
		return err
	}
	return showProgram(g, []string{sandbox.WorkspaceDir})
}

// appendProgram adds a byte to a file, and stays.
func appendProgram(g Guest, args []string) error {
	if err := appendTo(args[0], "+"); err != nil {
		return err
	}
	return stubbornProgram(g, nil)
}

// refusedProgram changes what cannot be changed.
func refusedProgram(g Guest, args []string) error {
	for _, dir := range args {
		for what, err := range map[string]error{
			"written":  os.WriteFile(dir+"/keep", nil, 0o644),
			"made":     os.WriteFile(dir+"/new", nil, 0o644),
			"removed":  os.Remove(dir + "/a"),
			"renamed":  os.Rename(dir+"/a", dir+"/b"),
			"opened":   os.Chmod(dir+"/a", 0o777),
			"a folder": os.Mkdir(dir+"/folder", 0o755),
		} {
			if err == nil {
				return fmt.Errorf("in %s a file is %s", dir, what)
			}
		}
	}
	_, err := fmt.Fprint(g.Stdout, "refused")
	return err
}

// aliasesProgram writes at each place and reads it at all.
func aliasesProgram(_ Guest, args []string) error {
	for i, from := range args {
		text := "from " + from
		if err := os.WriteFile(fmt.Sprintf("%s/%d", from, i), []byte(text), 0o644); err != nil {
			return err
		}
		for _, at := range args {
			if b, err := os.ReadFile(fmt.Sprintf("%s/%d", at, i)); err != nil || string(b) != text {
				return fmt.Errorf("at %s there is %q: %w", at, b, err)
			}
		}
	}
	return nil
}

// lockProgram takes the rights from what it changed, and from what it did not.
func lockProgram(_ Guest, _ []string) error {
	return errors.Join(
		appendTo("dir/x", "+"), os.Chmod("dir/x", 0), os.Chmod("dir", 0),
		os.MkdirAll("new/below", 0o755), os.Chmod("new/below", 0), os.Chmod("new", 0),
		os.Chmod("deep", 0), os.Chmod("t", 0),
	)
}

// forgeProgram makes the marks of overlays, as far as it is let, and takes away
// those that are there. It tells which the overlay obeys.
func forgeProgram(g Guest, _ []string) error {
	if err := errors.Join(os.RemoveAll("replaced"), os.MkdirAll("replaced", 0o755), os.MkdirAll("own/folder", 0o755), os.WriteFile("own/file", nil, 0o644)); err != nil {
		return err
	}
	for _, name := range []string{".", "victim", "victim/sub", "victim/file", "own", "own/folder", "own/file", "replaced"} {
		for _, attr := range marksOfOverlays {
			if name == "replaced" {
				_ = unix.Removexattr(name, attr)
				continue
			}
			value := "forged"
			if strings.HasSuffix(attr, "opaque") {
				value = "y"
			}
			_ = unix.Setxattr(name, attr, []byte(value), 0)
			_ = unix.Setxattr(name, strings.Replace(attr, "overlay.", "overlay.overlay.", 1), []byte(value), 0)
		}
	}
	_ = unix.Mknod("whiteout", unix.S_IFCHR, 0)
	_ = unix.Mknod("victim/whiteout", unix.S_IFCHR|0o666, 0)
	_ = os.WriteFile("moved", []byte("x"), 0o644)
	_ = unix.Renameat2(unix.AT_FDCWD, "moved", unix.AT_FDCWD, "elsewhere", unix.RENAME_WHITEOUT)
	for _, name := range []string{"victim/file", "victim/sub"} {
		if _, err := os.Stat(name); err != nil {
			fmt.Fprintln(g.Stdout, err)
		}
	}
	return nil
}
