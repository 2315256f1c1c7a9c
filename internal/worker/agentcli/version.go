package agentcli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

const (
	versionTimeout = 10 * time.Second // for a program to print its version
	versionBytes   = 16 << 10         // of its output that are read
	maxVersions    = 64               // versions that are remembered
	noVersionFor   = time.Minute      // after which a program without a version is asked again
)

// programID distinguishes a program from the one that it replaced.
type programID struct {
	path     string
	size     int64
	modified time.Time
}

// versionEntry is the version of a program. The lock, a channel so that waiting
// for it can be cancelled, guards the rest.
type versionEntry struct {
	lock    chan struct{}
	asked   bool
	version string
	at      time.Time // when it was asked
}

// checkVersion returns the version of a program, and an error if it is too old.
// A program without a version is accepted.
func (f *Finder) checkVersion(ctx context.Context, info framework.Info, p program) (string, error) {
	version, err := f.version(ctx, p)
	if err != nil {
		return "", err
	}
	if version != "" && slices.Compare(numbersOf(version), numbersOf(info.MinVersion)) < 0 {
		return "", stint.InvalidParam("framework", "The framework '%s' needs the program '%s' from version %s on, but %s is installed on this server. Update it%s, and try again.", info.Name, filepath.Base(p.at), info.MinVersion, version, installHint(info))
	}
	return version, nil
}

// version returns the version of a program; empty if it cannot be started,
// prints none, or takes too long. The program is asked once until it is
// replaced. Concurrent callers wait for the same answer; if the one that asks
// gives up, the program is killed and the next one asks.
func (f *Finder) version(ctx context.Context, p program) (string, error) {
	st, err := os.Stat(p.real)
	if err != nil {
		return "", fmt.Errorf("stat a program: %w", err)
	}
	e := f.versionEntry(programID{p.real, st.Size(), st.ModTime()})
	select {
	case e.lock <- struct{}{}:
		defer func() { <-e.lock }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if e.asked && (e.version != "" || f.c.Now().Sub(e.at) < noVersionFor) {
		return e.version, nil
	}
	version, err := f.ask(ctx, p)
	if err == nil {
		e.asked, e.version, e.at = true, version, f.c.Now()
	}
	return version, err
}

func (f *Finder) versionEntry(id programID) *versionEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.versions[id]
	if e == nil {
		if len(f.versions) >= maxVersions {
			clear(f.versions)
		}
		e = &versionEntry{lock: make(chan struct{}, 1)}
		f.versions[id] = e
	}
	return e
}

// ask starts the program in an environment without secrets, with a temporary
// home folder.
func (f *Finder) ask(ctx context.Context, p program) (string, error) {
	home, err := os.MkdirTemp("", "stint-version-")
	if err != nil {
		return "", fmt.Errorf("make a temporary home folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }() // it is temporary
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out := &firstBytes{room: versionBytes}
	c := exec.CommandContext(limited, p.at, "--version")
	c.Dir, c.Stdout, c.Stderr = home, out, out
	c.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + f.c.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // for processes that it left in the background
	_ = c.Run()               // the output matters, not the exit status
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if found := versionPattern.FindSubmatch(out.text); found != nil {
		return string(found[1]), nil
	}
	return "", nil
}

var versionPattern = regexp.MustCompile(`(?:^|[^0-9.])([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})`)

// numbersOf returns the numbers of a version such as 1.2.3.
func numbersOf(version string) (numbers []int) {
	if version == "" {
		return nil
	}
	for text := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(text)
		numbers = append(numbers, n)
	}
	return numbers
}

// firstBytes keeps the first bytes that are written to it.
type firstBytes struct {
	text []byte
	room int
}

func (b *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), b.room)
	b.text = append(b.text, p[:n]...)
	b.room -= n
	return len(p), nil
}
