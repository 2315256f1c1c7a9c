package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// gitCheckout is a folder with the files of a commit, without those of git.
type gitCheckout struct{ dir, commit string }

// git runs the user's git program in a temporary repository.
type git struct {
	source gitSource
	dir    string // temporary folder
	prompt bool   // git may ask for a password
}

// checkOut fetches a commit, without its history, into a temporary folder. The caller
// removes dir.
func (a *app) checkOut(ctx context.Context, s gitSource, dir string) (gitCheckout, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return gitCheckout{}, errors.New("--git needs the program git, which is not on the PATH: install it, or push a folder")
	}
	if s.isLocal() {
		s.url = a.path(s.url)
	}
	g := &git{s, dir, a.IsTerminal(stdin)}
	if err := os.Mkdir(g.tree(), 0o777); err != nil {
		return gitCheckout{}, fmt.Errorf("create a temporary folder: %w", err)
	}
	commit, err := g.fetch(ctx)
	if err != nil {
		return gitCheckout{}, err
	}
	if _, err := g.run(ctx, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return gitCheckout{}, fmt.Errorf("git cannot write the files of %s: %w", s.shown(), err)
	}
	if _, err := os.Lstat(filepath.Join(g.tree(), ".gitmodules")); err == nil {
		a.note("The folders of submodules are empty: submodules are not fetched.")
	}
	return gitCheckout{g.tree(), commit}, g.normalize(ctx, commit)
}

func (g *git) tree() string { return filepath.Join(g.dir, "tree") }

// fetch fetches the commit and returns its ID.
func (g *git) fetch(ctx context.Context) (string, error) {
	shown := g.source.shown()
	_, err := g.run(ctx, "init", "--quiet", "--template=")
	if err == nil {
		_, err = g.run(ctx, "config", "remote.origin.url", g.source.url)
	}
	if err != nil {
		return "", fmt.Errorf("git cannot create a temporary repository: %w", err)
	}
	if _, err := g.run(ctx, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", "origin", g.source.ref); err != nil {
		if _, unreachable := g.run(ctx, "ls-remote", "--quiet", "--", "origin", "HEAD"); unreachable != nil {
			return "", fmt.Errorf("git cannot read the repository %s: check its URL and your access to it (%w)", shown, unreachable)
		}
		return "", fmt.Errorf("%s (%w)", g.noRef(), err)
	}
	commit, err := g.run(ctx, "rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}")
	if err != nil {
		return "", errors.New(g.noRef())
	}
	return commit, nil
}

var partOfCommit = regexp.MustCompile(`^[0-9a-f]{4,39}$`)

// noRef returns the message for a ref that does not exist.
func (g *git) noRef() string {
	hint := "check its name"
	if partOfCommit.MatchString(g.source.ref) {
		hint = "check its name, and write all 40 digits of a commit"
	}
	return fmt.Sprintf("the repository %s has no branch, tag, or commit '%s': %s", g.source.shown(), g.source.ref, hint)
}

// run runs a git command and returns its standard output. The error is the command's
// standard error without credentials.
func (g *git) run(ctx context.Context, args ...string) (string, error) {
	fixed := []string{
		"--git-dir=" + filepath.Join(g.dir, "git"), "--work-tree=" + g.tree(),
		"-c", "core.autocrlf=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "maintenance.auto=false", "-c", "gc.auto=0",
	}
	c := exec.CommandContext(ctx, "git", append(fixed, args...)...)
	c.Dir = g.tree()
	c.Env = g.environment(c.Environ())
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	var out, messages strings.Builder
	c.Stdout, c.Stderr = &out, &messages
	if err := c.Run(); err != nil {
		if text := g.source.clean(messages.String()); text != "" {
			return "", errors.New(text)
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(out.String()), nil
}

// environment returns the user's environment without variables that refer to another
// repository, as git sets them for hooks.
func (g *git) environment(all []string) []string {
	all = slices.DeleteFunc(all, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{
			"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
			"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_TRACE", "GIT_TRACE_CURL", "GIT_CURL_VERBOSE",
		}, name)
	})
	if !g.prompt {
		all = append(all, "GIT_TERMINAL_PROMPT=0")
	}
	return all
}

// normalize sets the modification time of all files to that of the commit, and their
// permissions to those of git. The same commit therefore always gives the same version.
func (g *git) normalize(ctx context.Context, commit string) error {
	text, err := g.run(ctx, "show", "--no-patch", "--format=%ct", commit)
	if err != nil {
		return fmt.Errorf("git cannot read the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("read the time of the commit: %w", err)
	}
	at, err := unix.TimeToTimespec(time.Unix(seconds, 0))
	if err != nil {
		return fmt.Errorf("read the time of the commit: %w", err)
	}
	return filepath.WalkDir(g.tree(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink == 0 {
			err = setPermissions(path, d)
		}
		if err != nil {
			return err
		}
		return os.NewSyscallError("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
	})
}

// setPermissions sets the permissions of a file or folder to 0755 or 0644.
func setPermissions(path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return os.Chmod(path, mode)
}
