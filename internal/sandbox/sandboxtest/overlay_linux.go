package sandboxtest

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

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
)

func init() {
	maps.Copy(overlayCases, map[string]func(*world, mountFunc){
		"reading":                            layersRead,
		"changing":                           layersChanged,
		"changes as a layer of the next run": changesAsLayer,
		"read-only":                          layersReadOnly,
		"aliases":                            layersAliased,
		"home and workspace":                 layersAsFolders,
		"mounts inside an overlay":           mountsInLayers,
		"symbolic links in layers":           linksInLayers,
		"maximum number of layers":           manyLayers,
		"inaccessible folders":               lockedLayers,
		"invalid layers":                     layersMissing,
		"forged marks are ignored":           forgedMarksIgnored,
		"disk: new files":                    func(w *world, with mountFunc) { overlayDiskLimit(w, with, "use-disk", "the workspace", "24") },
		"disk: a deleted file":               func(w *world, with mountFunc) { overlayDiskLimit(w, with, "use-disk", "a deleted file", "24") },
		"disk: a mapped file":                func(w *world, with mountFunc) { overlayDiskLimit(w, with, "use-disk", "a mapped file", "24") },
		"disk: copy of a large file":         func(w *world, with mountFunc) { overlayDiskLimit(w, with, "append", "big") },
		"disk: reading does not count":       layersNotCounted,
	})
	controls["overlay marks can be forged"] = marksCanBeForged
}

func layersRead(w *world, with mountFunc) {
	m, s := w.threeLayers(), w.spec()
	before := w.hashDirs(m.Layers...)
	got := w.runToEnd(w.mountWith(with, s, m), "show", sandbox.WorkspaceDir)
	want := "a a0\nclosed/f f0\ndeep/er/f f0\ndir/x x0\ndir/y y2\nhidden/new new\nkeep keep0\nlink -> a\nreplaced/f f0\nreplaced/g g0\nt t2\n"
	w.want("read inside", want, got)
	w.want("the layers", before, w.hashDirs(m.Layers...))
	w.want("changes", "[]", fmt.Sprint(w.changes(m.Upper)))
}

// layersChanged checks the content of the upper folder, from which snapshots are made,
// after a program changed files of the layers.
func layersChanged(w *world, with mountFunc) {
	m, s := w.threeLayers(), w.spec()
	before := w.hashDirs(m.Layers...)
	got := w.runToEnd(w.mountWith(with, s, m), "change")
	w.want("read inside", "closed/f f0+\ndir/w y2\ndir/x x0+\nhidden/new new\nkeep changed\nlink -> a\nnewer/file new\nreplaced/h h\nt t2\n", got)
	w.want("the layers", before, w.hashDirs(m.Layers...))
	want := []string{
		"a gone", "closed folder", "closed/f f0+", "deep gone", "dir folder", "dir/w y2", "dir/x x0+", "dir/y gone", "keep changed",
		"newer hides", "newer/file new", "replaced hides", "replaced/h h",
	}
	w.want("changes", strings.Join(want, "\n"), strings.Join(w.changes(m.Upper), "\n"))
	w.wantOwnedByServer(m.Upper)
	var st unix.Stat_t
	w.must(unix.Stat(filepath.Join(m.Upper, "closed"), &st))
	if st.Mode&0o777 != 0o555 {
		w.Errorf("the closed folder has mode %o", st.Mode)
	}
	w.wantNothingLeft(m.Upper)
}

// changesAsLayer uses the upper folder of one run as a layer of the next run.
func changesAsLayer(w *world, with mountFunc) {
	m := w.threeLayers()
	want := w.runToEnd(w.mountWith(with, w.spec(), m), "change")
	next := m
	next.Layers, next.Upper = append([]string{m.Upper}, m.Layers...), filepath.Join(w.dir, "changes", "next")
	w.must(os.Mkdir(next.Upper, 0o700))
	before := w.hashDirs(next.Layers...)
	w.want("output of the next run", want, w.runToEnd(w.mountWith(with, w.spec(), next), "show", sandbox.WorkspaceDir))
	w.want("the layers", before, w.hashDirs(next.Layers...))
	w.must(sandbox.Remove(filepath.Dir(m.Upper)))
}

// wantNothingLeft checks that the upper folder is the only entry of its parent folder
// and that no overlay is mounted on the host. It then removes the parent folder.
func (w *world) wantNothingLeft(upper string) {
	w.Helper()
	entries, err := os.ReadDir(filepath.Dir(upper))
	w.must(err)
	if len(entries) != 1 {
		w.Errorf("files next to the upper folder: %v", entries)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	w.must(err)
	if bytes.Contains(mounts, []byte(w.dir)) {
		w.Errorf("an overlay is mounted on the host:\n%s", mounts)
	}
	w.must(sandbox.Remove(filepath.Dir(upper)))
}

func layersReadOnly(w *world, with mountFunc) {
	m := w.threeLayers()
	m.Upper, m.Target, m.Alias = "", "/data", []string{"/mnt/again"}
	before := w.hashDirs(m.Layers...)
	got := w.runToEnd(w.mountWith(with, w.spec(), m), "try-change", "/data", "/mnt/again")
	w.want("inside", "refused", got)
	w.want("the layers", before, w.hashDirs(m.Layers...))
	again := m
	again.Target, again.Alias = sandbox.WorkspaceDir, nil
	w.want("inside", "refused", w.runToEnd(w.mountWith(with, w.spec(), again), "try-change", sandbox.WorkspaceDir))
}

func layersAliased(w *world, with mountFunc) {
	m := w.threeLayers()
	m.Alias = []string{"/d", "/mnt/a/longer/place"}
	w.runToEnd(w.mountWith(with, w.spec(), m), "aliases", sandbox.WorkspaceDir, "/d", "/mnt/a/longer/place")
	want := "0 from /workspace\n1 from /d\n2 from /mnt/a/longer/place"
	w.want("changes", want, strings.Join(w.changes(m.Upper), "\n"))
}

// layersAsFolders mounts overlays over the agent's home and workspace, which hides the
// previous content of these folders.
func layersAsFolders(w *world, with mountFunc) {
	m, s := w.threeLayers(), w.spec()
	home := sandbox.Mount{Target: sandbox.HomeDir, Layers: []string{w.makeLayer("home", map[string]string{".state": "s0"})}, Upper: filepath.Join(w.dir, "changes", "home")}
	w.must(os.Mkdir(home.Upper, 0o700))
	w.must(os.WriteFile(filepath.Join(s.Workspace, "under"), []byte("x"), 0o600))
	b := w.mountWith(with, s, m, home)
	got := w.runToEnd(b, "write", "t", "changed", sandbox.HomeDir+"/.state", "s1")
	w.want("output", "", got)
	w.want("the workspace's changes", "[t changed]", fmt.Sprint(w.changes(m.Upper)))
	w.want("the home's changes", "[.state s1]", fmt.Sprint(w.changes(home.Upper)))
	if entries, err := os.ReadDir(s.Workspace); err != nil || len(entries) != 1 {
		w.Errorf("the covered folder holds %v, %v", entries, err)
	}
}

// mountsInLayers mounts folders inside an overlay. The driver creates missing target
// folders, which must not hide other files of the layers.
func mountsInLayers(w *world, with mountFunc) {
	m := w.threeLayers()
	given := w.dirWithFile("given", "given")
	b := w.mountWith(with, w.spec(), m, sandbox.Mount{Source: given, Target: sandbox.WorkspaceDir + "/deep/in/put"}, sandbox.Mount{Source: given, Target: sandbox.WorkspaceDir + "/gone/put"}, sandbox.Mount{Source: given, Target: sandbox.WorkspaceDir + "/dir"})
	got := w.runToEnd(b, "read", "deep/in/put/f", "gone/put/f", "dir/f", "deep/er/f")
	w.want("read inside", "givengivengivenf0", got)
	w.want("changes", "[deep folder deep/in folder deep/in/put folder gone folder gone/put folder]", strings.ReplaceAll(fmt.Sprint(w.changes(m.Upper)), "hides", "folder"))
}

// linksInLayers checks that a mount is refused if its target contains a symbolic link
// or a file of a layer.
func linksInLayers(w *world, with mountFunc) {
	victim := filepath.Join(w.dir, "victim")
	w.must(os.Mkdir(victim, 0o700))
	m := w.threeLayers()
	m.Layers = append(m.Layers, w.makeLayer("links", map[string]string{"abs": "->" + victim, "up": "->../victim", "in": "->dir", "file": "x"}))
	for _, at := range []string{"abs/put", "up/put", "in/put", "abs", "file/put", "file"} {
		_, err := with(w.spec(), m, sandbox.Mount{Source: w.suite.tools, Target: sandbox.WorkspaceDir + "/" + at})
		w.wantSentence(err)
		w.must(sandbox.Remove(filepath.Dir(m.Upper)))
		w.must(os.MkdirAll(m.Upper, 0o700))
	}
	if entries, err := os.ReadDir(victim); err != nil || len(entries) > 0 {
		w.Errorf("a link was followed: %v, %v", entries, err)
	}
}

func manyLayers(w *world, with mountFunc) {
	m := w.threeLayers()
	m.Layers = nil
	var want strings.Builder
	for i := range sandbox.MaxLayers {
		text := fmt.Sprintf("%03d", i)
		m.Layers = append(m.Layers, w.makeLayer("layer"+text, map[string]string{text: text, "top": text}))
		want.WriteString(text + " " + text + "\n")
	}
	w.want("read inside", want.String()+"top 000\n", w.runToEnd(w.mountWith(with, w.spec(), m), "show", sandbox.WorkspaceDir))
}

// lockedLayers checks that the server can read and remove folders from which an agent
// removed all permissions.
func lockedLayers(w *world, with mountFunc) {
	m := w.threeLayers()
	w.runToEnd(w.mountWith(with, w.spec(), m), "remove-permissions")
	w.wantHarmless(m.Upper)
	w.wantNothingLeft(m.Upper)
}

// layersMissing checks that invalid layers are refused and leave no files or mounts
// behind. After Attach refused them, the sandbox must still accept other mounts.
func layersMissing(w *world, with mountFunc) {
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
		w.must(b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{{Source: w.dirWithFile("data", "data"), Target: "/data"}}))
		w.want("read inside", "data", w.runToEnd(b, "read", "/data/f"))
	}
	w.must(os.WriteFile(filepath.Join(m.Upper, "x"), nil, 0o600))
	if _, err := with(w.spec(), m); err == nil {
		w.Error("an upper folder that is not empty is accepted")
	}
	w.wantNothingLeft(m.Upper)
}

// forgedMarksIgnored checks that an agent cannot misuse the marks of overlays, which are
// whiteouts and extended attributes: marks that the agent creates neither remove nor hide
// files in a snapshot, and the agent cannot remove existing marks.
func forgedMarksIgnored(w *world, with mountFunc) {
	m := w.threeLayers()
	for _, l := range m.Layers { // adds files that forged marks could hide
		w.must(os.MkdirAll(filepath.Join(l, "victim", "sub"), 0o755))
		w.must(os.WriteFile(filepath.Join(l, "victim", "file"), []byte("x"), 0o644))
	}
	before := w.hashDirs(m.Layers...)
	got := w.runToEnd(w.mountWith(with, w.spec(), m), "forge-marks")
	w.want("forged marks seen inside", "", got)
	w.want("forged marks", "", strings.Join(w.forgedMarks(m.Upper), "\n"))
	if !isOpaque(filepath.Join(m.Upper, "replaced")) {
		w.Error("the agent removed a mark")
	}
	w.want("the layers", before, w.hashDirs(m.Layers...))
}

// forgedMarks returns a description of each mark in an upper folder that is not the result
// of creating, changing, or removing files.
func (w *world) forgedMarks(upper string) []string {
	w.Helper()
	var found []string
	w.must(filepath.WalkDir(upper, func(path string, _ fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, upper+"/")
		if err != nil || strings.HasPrefix(rel, "replaced") || strings.HasPrefix(rel, "own") && isOpaque(path) {
			return err // the program created the folder "own", so its opaque mark hides nothing
		}
		if isWhiteout(path) {
			found = append(found, rel+" is gone")
		}
		for _, attr := range overlayAttributes {
			value := make([]byte, 256)
			if n, err := unix.Lgetxattr(path, attr, value); err == nil && strings.Contains(string(value[:n]), "forged") || attr == sandbox.OpaqueAttr && isOpaque(path) {
				found = append(found, rel+" has "+attr)
			}
		}
		return nil
	}))
	return found
}

// marksCanBeForged checks that the program forge-marks creates its marks if it runs
// without a sandbox.
func marksCanBeForged(w *world) {
	w.makeLayer("", map[string]string{"victim/sub/": "", "victim/file": "x", "replaced/f": "x"})
	if _, err := w.runInNamespaces("forge-marks"); err != nil {
		w.Fatal(err)
	}
	found := strings.Join(w.forgedMarks(w.dir), "\n")
	for _, want := range []string{"victim has " + sandbox.OpaqueAttr, "victim/file has " + sandbox.OverlayAttrs + "redirect", "whiteout is gone", "moved is gone"} {
		if !strings.Contains(found, want) {
			w.Errorf("%q is not among\n%s", want, found)
		}
	}
}

// overlayDiskLimit runs a program that writes more than diskLimit bytes to an overlay. The
// program must end with the cause DiskFull. It may exceed the limit briefly.
func overlayDiskLimit(w *world, with mountFunc, args ...string) {
	if !w.suite.Limits.Disk {
		return // the harness does not declare the limit
	}
	s, m := w.spec(), w.threeLayers()
	s.Resources.Disk = diskLimit
	m.Alias = []string{"/again"}
	w.must(os.WriteFile(filepath.Join(m.Layers[2], "big"), bytes.Repeat([]byte("x"), diskUseMB<<20), 0o644))
	b := w.mountWith(with, s, m)
	r := w.start(b, command(args...))
	if e := w.wait(r); e.Cause != sandbox.DiskFull {
		w.Errorf("exit %+v, want cause %s; stderr %s", e, sandbox.DiskFull, r.stderr)
	}
	w.must(r.Close(w.Context()))
	w.wantNothingLeft(m.Upper)
}

// layersNotCounted checks that reading layers uses no disk space, and that
// written files are counted once for all aliases.
func layersNotCounted(w *world, with mountFunc) {
	if !w.suite.Limits.Disk {
		return // the harness does not declare the limit
	}
	s, m := w.spec(), w.threeLayers()
	s.Resources.Disk = diskLimit
	m.Alias = []string{"/again"}
	w.must(os.WriteFile(filepath.Join(m.Layers[1], "big"), bytes.Repeat([]byte("x"), 2*diskLimit), 0o644))
	b := w.mountWith(with, s, m)
	r := w.start(b, command("write", "x", strings.Repeat("x", 100_000)))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.kill(r, 0)
	u, err := r.Usage(w.Context())
	w.must(err)
	if u.Disk < 100_000 || u.Disk > 200_000 {
		w.Errorf("disk usage is %d bytes", u.Disk)
	}
}
