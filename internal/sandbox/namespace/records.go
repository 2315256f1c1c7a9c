//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// record identifies a sandbox's init process, so that a later server process can end
// it. The start time distinguishes it from a later process with the same ID.
type record struct {
	PID     int
	Started string // clock ticks since boot
	Boot    string // the kernel's boot ID
}

const (
	recordSuffix = ".sandbox"
	groupsFile   = "cgroups"
)

func (d *Driver) recordPath(id string) string { return filepath.Join(d.dir, id+recordSuffix) }

// writeRecord stores the record of a sandbox. It does not sync the file, because
// the process does not survive a crash of the host. If the process has ended, it
// stores nothing: the next request to init fails and contains the reason.
func (d *Driver) writeRecord(id string, pid int) error {
	st, err := readStat("/proc", pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("recording sandbox: %w", err)
	}
	b, err := json.Marshal(record{pid, st.startTicks, d.bootID})
	if err == nil {
		err = os.WriteFile(d.recordPath(id), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording sandbox: %w", err)
	}
	return nil
}

func (d *Driver) dropRecord(id string) error {
	if err := os.Remove(d.recordPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("dropping record: %w", err)
	}
	return nil
}

// recordGroups stores the paths of the cgroup folders of this process and of earlier
// processes that Sweep has not emptied. The folders are inside the server's control
// group, and after a restart the server may be in another group.
func (d *Driver) recordGroups(dirs []string) error {
	path := filepath.Join(d.dir, groupsFile)
	text := strings.Join(dirs, "\n")
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("recording groups: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("recording groups: %w", err)
	}
	return nil
}

func (d *Driver) recordedGroups() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(d.dir, groupsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading recorded groups: %w", err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' }), nil
}

// Sweep ends and removes sandboxes of an earlier process with the same state folder.
// Their processes usually exit when the earlier process ends. Sweep kills those that
// remain and waits for their end.
func (d *Driver) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if _, live := d.live.Load(id); !ok || live {
			continue
		}
		if err := d.killRecorded(ctx, filepath.Join(d.dir, e.Name())); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, d.dropRecord(id))
	}
	earlier, err := d.recordedGroups()
	errs = append(errs, err)
	if err := d.groups.Sweep(ctx, earlier); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, d.recordGroups(d.groups.Dirs()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	return nil
}

func (d *Driver) killRecorded(ctx context.Context, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil || r.Boot != d.bootID || r.PID <= 1 {
		return nil // truncated by a crash, or from an earlier boot: no process exists
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st, err := readStat("/proc", r.PID); err != nil || st.startTicks != r.Started {
		return nil // the ID belongs to another process now
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return waitExit(ctx, fd)
}

// exitTimeout is the maximum wait for a process to end. It allows for a busy machine
// and for processes that release much memory.
const exitTimeout = 30 * time.Second

// waitExit waits until the init process that pidfd refers to has ended. All processes
// of its PID namespace have then ended too.
func waitExit(ctx context.Context, pidfd int) error {
	deadline := time.Now().Add(exitTimeout)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 50)
		if err != nil && err != unix.EINTR {
			return err
		}
		if n > 0 {
			return nil
		}
	}
	return fmt.Errorf("a process of an earlier sandbox does not end")
}
