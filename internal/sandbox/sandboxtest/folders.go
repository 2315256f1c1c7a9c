package sandboxtest

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stint-dev/stint/internal/sandbox"
)

// folderCases test folders that are shared between the host and the sandbox.
var folderCases = map[string]func(*world){
	"files are visible inside":     filesVisibleInside,
	"files are visible outside":    filesVisibleOutside,
	"unusual file names":           unusualFileNames,
	"symbolic links":               links,
	"mounts":                       mounts,
	"mounts inside folders":        mountsInFolders,
	"missing mount source":         missingFolders,
	"folders are kept after Close": foldersKept,
	"disk usage":                   diskUsage,
}

func (w *world) hostFile(elem ...string) string {
	w.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	w.must(err)
	return string(b)
}

func cancelled(w *world) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	return ctx, cancel
}

// wantOwnedByServer checks a folder to which an agent wrote: all its subfolders can be
// listed, and all its files belong to the current user and have no setuid bit.
func (w *world) wantOwnedByServer(dir string) {
	w.Helper()
	w.must(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		if owner := int(st.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
			w.Errorf("%s belongs to user %d on the host", path, owner)
		}
		if st.Mode()&fs.ModeSetuid != 0 {
			w.Errorf("%s is setuid on the host", path)
		}
		return nil
	}))
}

func filesVisibleInside(w *world) {
	s := w.spec()
	w.must(os.WriteFile(filepath.Join(s.Home, "private"), []byte("home,"), 0o600))
	w.must(os.MkdirAll(filepath.Join(s.Workspace, "sub"), 0o700))
	w.must(os.WriteFile(filepath.Join(s.Workspace, "sub", "given"), []byte("workspace,"), 0o600))
	r := w.launch(s, "read", sandbox.HomeDir+"/private", sandbox.WorkspaceDir+"/sub/given")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("read inside", "home,workspace,", r.stdout.String())
	changed := w.spec()
	changed.Workspace, changed.Home = s.Workspace, s.Home
	w.must(r.Close(w.Context()))
	w.succeed(changed, "write", sandbox.WorkspaceDir+"/sub/given", "changed")
	w.want("changed inside", "changed", w.hostFile(s.Workspace, "sub", "given"))
}

func filesVisibleOutside(w *world) {
	s := w.spec()
	r := w.launch(s, "write", sandbox.WorkspaceDir+"/a/b/c", "deep", sandbox.HomeDir+"/.state/x", "hidden")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.kill(r, 0)
	w.want("workspace", "deep", w.hostFile(s.Workspace, "a/b/c"))
	w.want("home", "hidden", w.hostFile(s.Home, ".state/x"))
	w.wantOwnedByServer(s.Workspace)
	w.wantOwnedByServer(s.Home)
	w.must(os.RemoveAll(s.Workspace))
	w.must(os.RemoveAll(s.Home))
}

func unusualFileNames(w *world) {
	s := w.spec()
	names := []string{"with space", "-dash", "new\nline", "ü€😀", "\xff\xfe", strings.Repeat("n", 255), "*?[", ".hidden", "tab\t"}
	args := []string{"write"}
	for _, n := range names {
		args = append(args, sandbox.WorkspaceDir+"/"+n, n)
	}
	w.succeed(s, args...)
	for _, n := range names {
		w.want("content", n, w.hostFile(s.Workspace, n))
	}
	w.wantOwnedByServer(s.Workspace)
}

func links(w *world) {
	s := w.spec()
	for name, target := range map[string]string{"inside": "a", "outside": "/etc/shadow", "up": "../../..", "loop": "loop"} {
		next := w.spec()
		next.Workspace = s.Workspace
		w.succeed(next, "link", target, sandbox.WorkspaceDir+"/"+name)
		got, err := os.Readlink(filepath.Join(s.Workspace, name))
		w.must(err)
		w.want("target", target, got)
	}
}

func mounts(w *world) {
	s := w.spec()
	given, taken := filepath.Join(w.dir, "given"), filepath.Join(w.dir, "taken")
	w.must(os.Mkdir(given, 0o700))
	w.must(os.Mkdir(taken, 0o700))
	w.must(os.WriteFile(filepath.Join(given, "f"), []byte("data"), 0o600))
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: given, Target: "/data"}, sandbox.Mount{Source: taken, Target: "/mnt/out/deep", Writable: true})
	w.want("read-only mount", "data", w.succeed(s, "read", "/data/f"))
	next := w.spec()
	next.Mounts = s.Mounts
	w.succeed(next, "write", "/mnt/out/deep/x", "made")
	w.want("writable mount", "made", w.hostFile(taken, "x"))
	w.wantOwnedByServer(taken)
}

func mountsInFolders(w *world) {
	s := w.spec()
	given := filepath.Join(w.dir, "given")
	w.must(os.Mkdir(given, 0o700))
	w.must(os.WriteFile(filepath.Join(given, "f"), []byte("data"), 0o600))
	inside := sandbox.WorkspaceDir + "/in/put"
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: given, Target: inside})
	w.want("mount in the workspace", "data", w.succeed(s, "read", inside+"/f"))
}

func missingFolders(w *world) {
	s := w.spec()
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: filepath.Join(w.dir, "missing"), Target: "/data"})
	if !w.suite.Isolates {
		return // a driver that does not isolate commands mounts nothing
	}
	_, err := w.driver.Prepare(w.Context(), s)
	w.wantSentence(err)
}

func foldersKept(w *world) {
	s := w.spec()
	r := w.launch(s, "write", sandbox.WorkspaceDir+"/x", "kept")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.must(r.Close(w.Context()))
	w.want("after Close", "kept", w.hostFile(s.Workspace, "x"))
}

func diskUsage(w *world) {
	if !w.suite.Limits.Disk {
		return // only drivers with a disk limit must measure the disk usage
	}
	s := w.spec()
	s.Resources.Disk = 1 << 30
	r := w.launch(s, "write", sandbox.WorkspaceDir+"/x", strings.Repeat("x", 100_000))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.kill(r, 0)
	u, err := r.Usage(w.Context())
	w.must(err)
	if u.Disk < 100_000 || u.Disk > 10<<20 || u.DiskLimit != 1<<30 {
		w.Errorf("disk usage is %d of %d bytes", u.Disk, u.DiskLimit)
	}
}
