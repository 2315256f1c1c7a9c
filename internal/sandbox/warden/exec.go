//go:build linux && (amd64 || arm64)

package warden

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stint-dev/stint/internal/sandbox"
)

// What every sandbox is to its agent.
const (
	AgentID  = 1000    // user and group
	HostName = "stint" // its own name for itself
	TmpDir   = "/tmp"
)

// refusal is a sentence for the user.
type refusal string

func (r refusal) Error() string { return string(r) }

// launch starts the command, in init. Its errors are refusals.
func launch(o Order, stdio [3]int, ranged bool) (int, error) {
	argv, env, dir := o.Argv, o.Env, o.Dir
	if dir == "" {
		dir = sandbox.WorkspaceDir
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return 0, refusal(fmt.Sprintf("The working directory %s does not exist in the sandbox.", dir))
	}
	program, err := lookUp(argv[0], env, dir)
	if err != nil {
		return 0, err
	}
	attr := &syscall.SysProcAttr{Setsid: true}
	if ranged {
		attr.Credential = &syscall.Credential{Uid: AgentID, Gid: AgentID}
	}
	pid, err := syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: dir, Env: env, Sys: attr,
		Files: []uintptr{uintptr(stdio[0]), uintptr(stdio[1]), uintptr(stdio[2])},
	})
	if err != nil {
		return 0, explainExec(argv[0], err)
	}
	return pid, nil
}

// lookUp finds the program as a shell inside would.
func lookUp(name string, env []string, dir string) (string, error) {
	if strings.ContainsRune(name, '/') {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		switch st, err := os.Stat(path); {
		case err != nil:
			return "", refusal(fmt.Sprintf("The program %s does not exist in the sandbox.", name))
		case !executable(st):
			return "", refusal(fmt.Sprintf("The file %s is not an executable program.", name))
		}
		return path, nil
	}
	search := pathOf(env)
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue // nothing is run from wherever we happen to be
		}
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && executable(st) {
			return path, nil
		}
	}
	return "", refusal(fmt.Sprintf("There is no program %q in the sandbox's PATH (%s).", name, search))
}

// defaultPath is searched when the environment has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

func pathOf(env []string) string {
	search := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
		}
	}
	return search
}

func executable(st os.FileInfo) bool { return st.Mode().IsRegular() && st.Mode()&0o111 != 0 }

func explainExec(name string, err error) error {
	reason := err.Error()
	switch {
	case errors.Is(err, syscall.ENOENT):
		reason = "the interpreter that it names does not exist in the sandbox"
	case errors.Is(err, syscall.ENOEXEC):
		reason = "it is not a program for this system"
	case errors.Is(err, syscall.EACCES):
		reason = "the agent's user may not run it or enter the working directory"
	case errors.Is(err, syscall.E2BIG):
		reason = "its arguments and environment are too long"
	case errors.Is(err, syscall.EAGAIN):
		reason = "the limit of processes is too low"
	}
	return refusal(fmt.Sprintf("The program %s cannot be started: %s.", name, reason))
}
