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
	versionTimeout = 10 * time.Second // time for a program to print its version
	versionBytes   = 16 << 10         // maximum bytes of its output that are read
	maxVersions    = 64               // maximum number of versions that are cached
	noVersionFor   = time.Minute      // time after which a program without a version is started again
)

// programID identifies a file. A file that replaces another one has a different ID.
type programID struct {
	path     string
	size     int64
	modified time.Time
}

// versionEntry is the cached version of a program. lock guards the other fields. It
// is a channel, so that a caller can stop waiting for it.
type versionEntry struct {
	lock    chan struct{}
	asked   bool // the program was started
	version string
	at      time.Time // when the program was last started
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

// version returns the version of a program, or "" if the program cannot be started,
// prints no version, or takes too long. A version is cached until the program is
// replaced, and the lack of one is cached for noVersionFor. Concurrent callers share
// one start of the program. If the context of the caller that started the program
// ends, the program is killed and the next caller starts it.
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

// ask starts the program with --version and returns the version that it prints, or "".
// The program runs in an environment without secrets, with a temporary home folder.
func (f *Finder) ask(ctx context.Context, p program) (string, error) {
	home, err := os.MkdirTemp("", "stint-version-")
	if err != nil {
		return "", fmt.Errorf("make a temporary home folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }() // a failure leaves only a temporary folder
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out := &firstBytes{room: versionBytes}
	c := exec.CommandContext(limited, p.at, "--version")
	c.Dir, c.Stdout, c.Stderr = home, out, out
	c.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + f.c.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // for processes that the program left in the background
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

// numbersOf returns the numbers of a version such as 1.2.3, or nil for "".
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

// firstBytes stores the first room bytes that are written to it and drops the others.
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
