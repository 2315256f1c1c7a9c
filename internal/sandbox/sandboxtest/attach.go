package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox"
)

// attachCases test Sandbox.Attach.
var attachCases = map[string]func(*world){
	"attach mounts":                mountsAttached,
	"attach nothing":               nothingAttached,
	"attach limits":                limitsAttached,
	"attached memory limit":        attachedMemory,
	"attached process limit":       attachedPids,
	"attached disk limit":          attachedDisk,
	"attached shared memory limit": attachedShared,
	"attach twice":                 attachTwice,
	"attach after Start":           attachAfterStart,
	"attach invalid mounts":        attachRefused,
	"attach over a symbolic link":  attachOverLink,
	"attach many mounts":           manyAttached,
	"attach to an image":           attachedToImage,
}

// noAttachCases test drivers whose sandboxes do not support Attach.
var noAttachCases = map[string]func(*world){"attach is not supported": attachUnsupported}

// dirWithFile creates a folder in the folder of the test case, with one file f that
// contains text. It returns the path of the folder.
func (w *world) dirWithFile(name, text string) string {
	w.Helper()
	dir := filepath.Join(w.dir, name)
	w.must(os.Mkdir(dir, 0o700))
	w.must(os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600))
	return dir
}

func mountsAttached(w *world) {
	s := w.spec()
	b := w.prepare(s)
	data, out, nested := w.dirWithFile("data", "data,"), w.dirWithFile("out", "out,"), w.dirWithFile("nested", "nested,")
	w.must(b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{
		{Source: data, Target: "/data"},
		{Source: nested, Target: sandbox.WorkspaceDir + "/in/put"},
		{Source: out, Target: "/mnt/out/deep", Writable: true},
		{Source: nested, Target: "/mnt/out/deep/again"},
	}))
	w.must(os.WriteFile(filepath.Join(s.Workspace, "later"), []byte("later"), 0o600))
	r := w.start(b, command("attached"))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("read inside", "data,nested,out,nested,later", r.stdout.String())
	w.kill(r, 0)
	w.want("written inside", "made", w.hostFile(out, "x"))
	w.wantOwnedByServer(out)
	for _, dir := range []string{data, nested} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			w.Errorf("%s holds %v, %v", dir, entries, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(s.Workspace, "in", "put")); err != nil || len(entries) > 0 {
		w.Errorf("the mount point on the host contains %v, %v", entries, err)
	}
}

func nothingAttached(w *world) {
	b := w.prepare(w.spec())
	w.must(b.Attach(w.Context(), sandbox.Resources{}, nil))
	r := w.start(b, command("args", "x"))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("output", "x\x00", r.stdout.String())
}

func limitsAttached(w *world) {
	b := w.prepare(w.spec())
	want := sandbox.Resources{CPU: 1, Memory: 256 << 20, Disk: 64 << 20, Pids: 64}
	w.must(b.Attach(w.Context(), want, nil))
	u, err := b.Usage(w.Context())
	w.must(err)
	if u.MemoryLimit != want.Memory || w.suite.Limits.Disk && u.DiskLimit != want.Disk {
		w.Errorf("limits in Usage are %d and %d", u.MemoryLimit, u.DiskLimit)
	}
}

// startLimited prepares a sandbox with the limits before, replaces them by the limits
// after with Attach, and starts a command.
func (w *world) startLimited(before, after sandbox.Resources, args ...string) *running {
	w.Helper()
	s := w.spec()
	s.Resources = before
	b := w.prepare(s)
	w.must(b.Attach(w.Context(), after, nil))
	return w.start(b, command(args...))
}

func attachedMemory(w *world) {
	if !w.suite.Limits.Memory {
		return // the harness does not declare support
	}
	for _, before := range []int64{0, 64 << 20, 1 << 30} {
		r := w.startLimited(sandbox.Resources{Memory: before}, sandbox.Resources{Memory: 128 << 20}, "allocate", "512")
		if e := w.wait(r); e.Cause != sandbox.OOMKilled {
			w.Errorf("after %d bytes: exit %+v, want cause %s", before, e, sandbox.OOMKilled)
		}
	}
	r := w.startLimited(sandbox.Resources{Memory: 64 << 20}, sandbox.Resources{}, "allocate", "128")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

func attachedPids(w *world) {
	if !w.suite.Limits.Pids {
		return // the harness does not declare support
	}
	r := w.startLimited(sandbox.Resources{}, sandbox.Resources{Pids: 64}, "fork", "200")
	w.wait(r)
	if got := r.stdout.String(); got == "200" {
		w.Error("200 processes were made under a limit of 64")
	}
	w.kill(r, 0)
}

func attachedDisk(w *world) {
	if !w.suite.Limits.Disk {
		return // the harness does not declare support
	}
	r := w.startLimited(sandbox.Resources{}, sandbox.Resources{Disk: 8 << 20}, "fill", sandbox.WorkspaceDir, "24")
	if e := w.wait(r); e.Cause != sandbox.DiskFull {
		w.Errorf("exit %+v, want cause %s", e, sandbox.DiskFull)
	}
}

// attachedShared checks that the size of /dev/shm follows the memory limit of Attach:
// half of 256 MB is too small for 129 MB, half of 1 GB is not.
func attachedShared(w *world) {
	r := w.startLimited(sandbox.Resources{Memory: 1 << 30}, sandbox.Resources{Memory: 256 << 20}, "shm", "129")
	w.wantExit(r, sandbox.Exit{Code: 9, Cause: sandbox.Exited})
	r = w.startLimited(sandbox.Resources{Memory: 256 << 20}, sandbox.Resources{Memory: 1 << 30}, "shm", "129")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

func attachTwice(w *world) {
	b := w.prepare(w.spec())
	w.must(b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{{Source: w.dirWithFile("data", "data"), Target: "/data"}}))
	if err := b.Attach(w.Context(), sandbox.Resources{}, nil); !errors.Is(err, sandbox.ErrAttach) {
		w.Errorf("attaching twice: %v, want %v", err, sandbox.ErrAttach)
	}
	r := w.start(b, command("read", "/data/f"))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("read inside", "data", r.stdout.String())
}

func attachAfterStart(w *world) {
	r := w.launch(w.spec(), "hang")
	w.awaitText(r.stdout, "ready")
	if err := r.Attach(w.Context(), sandbox.Resources{}, nil); !errors.Is(err, sandbox.ErrAttach) {
		w.Errorf("attaching after Start: %v, want %v", err, sandbox.ErrAttach)
	}
	w.kill(r, 0)
}

// attachRefused checks that Attach refuses invalid mounts with a sentence, and that
// the sandbox can be used after a failed Attach.
func attachRefused(w *world) {
	b := w.prepare(w.spec())
	for _, m := range []sandbox.Mount{
		{Source: filepath.Join(w.dir, "missing"), Target: "/data"},
		{Source: w.suite.tools, Target: "/proc/x"},
		{Source: w.suite.tools, Target: sandbox.WorkspaceDir},
		{Source: w.suite.tools, Target: toolsDir},
		{Source: w.suite.tools, Target: "/usr/no-such-folder/x"},
	} {
		err := b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{m})
		w.wantSentence(err)
	}
	w.must(b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{{Source: w.dirWithFile("data", "data"), Target: "/data"}}))
	r := w.start(b, command("read", "/data/f"))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("read inside", "data", r.stdout.String())
}

// attachOverLink checks that Attach refuses a mount if its target contains a symbolic
// link, which an earlier run may have created in the workspace.
func attachOverLink(w *world) {
	victim := filepath.Join(w.dir, "victim")
	w.must(os.Mkdir(victim, 0o700))
	for i, target := range []string{victim, "elsewhere", "../../../../../../../../etc"} {
		s := w.spec()
		w.must(os.MkdirAll(filepath.Join(s.Workspace, "elsewhere", "put"), 0o700))
		w.must(os.Symlink(target, filepath.Join(s.Workspace, "in")))
		b := w.prepare(s)
		mount := sandbox.Mount{Source: w.dirWithFile(fmt.Sprint("given", i), "x"), Target: sandbox.WorkspaceDir + "/in/put"}
		if err := b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{mount}); err == nil {
			w.Errorf("a mount over a symbolic link to %s succeeds", target)
		}
	}
	entries, err := os.ReadDir(victim)
	w.must(err)
	if len(entries) > 0 {
		w.Errorf("the link was followed: %v", entries)
	}
}

func manyAttached(w *world) {
	b := w.prepare(w.spec())
	data := w.dirWithFile("data", "x")
	var list []sandbox.Mount
	args := []string{"read"}
	for i := range 150 {
		target := fmt.Sprintf("/data/%d", i)
		list = append(list, sandbox.Mount{Source: data, Target: target})
		args = append(args, target+"/f")
	}
	w.must(b.Attach(w.Context(), sandbox.Resources{}, list))
	r := w.start(b, command(args...))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("read inside", strings.Repeat("x", len(list)), r.stdout.String())
}

func attachedToImage(w *world) {
	if !w.suite.Images {
		return // the harness does not declare support
	}
	s := w.imageSpec()
	b := w.prepare(s)
	w.must(b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{{Source: w.dirWithFile("given", "given"), Target: "/new/data"}}))
	r := w.start(b, sandbox.Command{Argv: []string{"/bin/" + programName, "read", "/new/data/f"}})
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("read inside", "given", r.stdout.String())
}

func attachUnsupported(w *world) {
	b := w.prepare(w.spec())
	err := b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{{Source: w.dirWithFile("data", "data"), Target: "/data"}})
	if !errors.Is(err, sandbox.ErrAttach) {
		w.Errorf("Attach: %v, want %v", err, sandbox.ErrAttach)
	}
	r := w.start(b, command("args", "x"))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("output", "x\x00", r.stdout.String())
}
