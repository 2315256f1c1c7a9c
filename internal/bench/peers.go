package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const whatBubblewrap = "bubblewrap, /bin/true"

// systemFolders are what peers show of the host: programs and their libraries.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}

// runQuiet runs a program; what it wrote is its error.
func runQuiet(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.300s", argv[0], err, out)
	}
	return nil
}

// peers are other ways to isolate /bin/true, as far as they are installed and
// work here; dir is theirs.
func (l *lab) peers(ctx context.Context, dir string) (all []*contestant) {
	for _, t := range []*contestant{bubblewrap(), runc(dir)} {
		if t == nil {
			continue // not installed
		}
		if _, err := t.run(ctx); err != nil {
			l.add(Row{What: t.what, Note: "not measured: " + oneLine(err.Error())})
			continue
		}
		all = append(all, t)
	}
	return all
}

// bubblewrap unshares all that it can, as our own isolator does.
func bubblewrap() *contestant {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil
	}
	argv := []string{path, "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}
	for _, f := range systemFolders {
		if target, err := os.Readlink(f); err == nil {
			argv = append(argv, "--symlink", target, f)
		} else if _, err := os.Stat(f); err == nil {
			argv = append(argv, "--ro-bind", f, f)
		}
	}
	return &contestant{what: whatBubblewrap, run: command(append(argv, "/bin/true")...)}
}

// runc runs a bundle that shows the same of the host.
func runc(dir string) *contestant {
	path, err := exec.LookPath("runc")
	if err != nil {
		return nil
	}
	if err := writeBundle(dir); err != nil {
		return nil
	}
	var n atomic.Int64
	return &contestant{what: "runc, /bin/true", run: func(ctx context.Context) (time.Duration, error) {
		id := fmt.Sprintf("stint-bench-%d-%d", os.Getpid(), n.Add(1))
		return command(path, "--root", filepath.Join(dir, "state"), "run", "--bundle", dir, id)(ctx)
	}}
}

type ociMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

// writeBundle writes an OCI bundle with a read-only view of the host's system.
func writeBundle(dir string) error {
	root := filepath.Join(dir, "rootfs")
	mounts := []ociMount{{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}}}
	errs := []error{os.MkdirAll(root, 0o700)}
	for _, f := range systemFolders {
		if target, err := os.Readlink(f); err == nil {
			errs = append(errs, os.Symlink(target, filepath.Join(root, f)))
		} else if _, err := os.Stat(f); err == nil {
			mounts = append(mounts, ociMount{f, "bind", f, []string{"rbind", "ro", "nosuid"}})
		}
	}
	type namespace struct {
		Type string `json:"type"`
	}
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.0",
		"root":       map[string]any{"path": root, "readonly": true},
		"process":    map[string]any{"args": []string{"/bin/true"}, "cwd": "/", "noNewPrivileges": true, "user": map[string]int{"uid": 0, "gid": 0}},
		"mounts":     mounts,
		"linux":      map[string]any{"namespaces": []namespace{{"pid"}, {"mount"}, {"network"}, {"ipc"}, {"uts"}}},
	})
	return errors.Join(append(errs, err, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))...)
}

// descendants are the processes that this one, or one of them, has started.
func descendants() (map[int]bool, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if f := strings.Fields(rest); err == nil && len(f) > 1 {
			parents[pid], _ = strconv.Atoi(f[1])
		}
	}
	all := map[int]bool{}
	for pid := range parents {
		for p := pid; p > 1; p = parents[p] {
			if parents[p] == os.Getpid() {
				all[pid] = true
				break
			}
		}
	}
	return all, nil
}

// proportional is a process's memory, shared pages divided among those who
// share them, in bytes; 0 when it has ended.
func proportional(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
