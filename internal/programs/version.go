package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	versionLimit = 10 * time.Second // for a program to tell its version
	versionBytes = 16 << 10         // of what it says that are looked at
	maxVersions  = 64               // programs that are remembered
)

// version asks a program for its version, once for as long as it stays the
// same. One that cannot be started, says none or takes too long has none.
func (f *Finder) version(ctx context.Context, p program) (string, error) {
	st, err := os.Stat(p.real)
	if err != nil {
		return "", fmt.Errorf("look at a program: %w", err)
	}
	id := identity{p.real, st.Size(), st.ModTime()}
	f.asking.Lock()
	defer f.asking.Unlock()
	if v, ok := f.versions[id]; ok {
		return v, nil
	}
	v, answered, err := f.ask(ctx, p)
	if err != nil || !answered {
		return v, err
	}
	if len(f.versions) >= maxVersions {
		clear(f.versions)
	}
	f.versions[id] = v
	return v, nil
}

// ask starts the program, in an environment that tells it nothing and keeps
// nothing of what it writes.
func (f *Finder) ask(ctx context.Context, p program) (version string, answered bool, err error) {
	home, err := os.MkdirTemp("", "stint-version-")
	if err != nil {
		return "", false, fmt.Errorf("make a home for a program: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }() // it is temporary
	limited, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	out := &start{room: versionBytes}
	c := exec.CommandContext(limited, p.at, "--version")
	c.Dir, c.Stdout, c.Stderr = home, out, out
	c.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + f.c.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // for what it started and let go
	err = c.Run()
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	return versionIn(out.text), limited.Err() == nil, nil // how it ended tells less than what it said
}

// start keeps the first bytes that are written.
type start struct {
	text []byte
	room int
}

func (s *start) Write(p []byte) (int, error) {
	n := min(len(p), s.room)
	s.text = append(s.text, p[:n]...)
	s.room -= n
	return len(p), nil
}

var numbers = regexp.MustCompile(`(?:^|[^0-9.])([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})`)

// versionIn finds the first version in a text.
func versionIn(text []byte) string {
	if found := numbers.FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}

// older compares two versions of three numbers. Nothing is older than none.
func older(version, least string) bool {
	if least == "" {
		return false
	}
	has, needs := strings.Split(version, "."), strings.Split(least, ".")
	for i := range min(len(has), len(needs)) {
		a, _ := strconv.Atoi(has[i])
		b, _ := strconv.Atoi(needs[i])
		if a != b {
			return a < b
		}
	}
	return false
}
