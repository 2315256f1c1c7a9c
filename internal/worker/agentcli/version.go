package agentcli

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

// noVersionFor is how long it is remembered that a program told no version: one
// that cannot be asked today may be whole tomorrow.
const noVersionFor = time.Minute

// answer is what a program said of its version, if it said any.
type answer struct {
	version string
	at      time.Time
}

// question is one that is being asked.
type question struct {
	waiting int                // for the answer
	giveUp  context.CancelFunc // ends the program
	done    chan struct{}      // closed when the rest is set
	version string
	err     error
}

// version asks a program for its version, once for as long as it stays the
// same, whoever asks meanwhile. One that cannot be started, says none or takes
// too long has none.
func (f *Finder) version(ctx context.Context, p program) (string, error) {
	st, err := os.Stat(p.real)
	if err != nil {
		return "", fmt.Errorf("look at a program: %w", err)
	}
	id := identity{p.real, st.Size(), st.ModTime()}
	f.asking.Lock()
	a, ok := f.versions[id]
	if ok && (a.version != "" || f.c.Now().Sub(a.at) < noVersionFor) {
		f.asking.Unlock()
		return a.version, nil
	}
	q := f.questions[id]
	if q == nil {
		q = f.open(ctx, id, p)
	}
	q.waiting++
	f.asking.Unlock()
	select {
	case <-q.done:
		return q.version, q.err
	case <-ctx.Done():
		f.leave(id, q)
		return "", context.Cause(ctx)
	}
}

// open begins to ask, for all who wait. The caller holds asking.
func (f *Finder) open(ctx context.Context, id identity, p program) *question {
	ctx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	q := &question{giveUp: giveUp, done: make(chan struct{})}
	f.questions[id] = q
	go func() {
		defer giveUp()
		defer close(q.done)
		if q.version, q.err = f.ask(ctx, p); q.err == nil {
			f.remember(id, q)
		}
		f.close(id, q)
	}()
	return q
}

func (f *Finder) remember(id identity, q *question) {
	f.asking.Lock()
	defer f.asking.Unlock()
	if len(f.versions) >= maxVersions {
		clear(f.versions)
	}
	f.versions[id] = answer{q.version, f.c.Now()}
}

// close takes a question back that is answered or given up.
func (f *Finder) close(id identity, q *question) {
	f.asking.Lock()
	defer f.asking.Unlock()
	if f.questions[id] == q {
		delete(f.questions, id)
	}
}

// leave waits no more. The last one to go ends the program, and sees it end.
func (f *Finder) leave(id identity, q *question) {
	f.asking.Lock()
	q.waiting--
	last := q.waiting == 0
	if last && f.questions[id] == q {
		delete(f.questions, id) // who comes now asks anew
	}
	f.asking.Unlock()
	if last {
		q.giveUp()
		<-q.done
	}
}

// ask starts the program, in an environment that tells it nothing and keeps
// nothing of what it writes.
func (f *Finder) ask(ctx context.Context, p program) (string, error) {
	home, err := os.MkdirTemp("", "stint-version-")
	if err != nil {
		return "", fmt.Errorf("make a home for a program: %w", err)
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
	_ = c.Run()               // how it ended tells less than what it said
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return versionIn(out.text), nil
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
