//go:build linux && (amd64 || arm64)

package agentinit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// The agent's identity and its folder for temporary files in every sandbox.
const (
	AgentID  = 1000    // user and group
	HostName = "stint" // host name inside
	TmpDir   = "/tmp"
)

// maxText is the maximum length of a message's text, and maxName is the maximum
// length of a name within the text, both in bytes without the ellipsis of a cut text.
// Longer values are cut, because they may contain input of any length.
const (
	maxText = 2 << 10
	maxName = 256
)

// clip limits s to the number of bytes given by most. If s is longer, clip cuts it,
// removes invalid UTF-8, and appends an ellipsis, which is not counted.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// clipName shortens a name for use in a message.
func clipName(name string) string { return clip(name, maxName) }

// refusal is an error with a sentence for the user.
type refusal string

func (r refusal) Error() string { return string(r) }

// forkCommand starts the command and returns its process ID. Its errors are of
// type refusal.
func forkCommand(o Command, stdio [3]int, userRange bool) (int, error) {
	argv, env, dir := o.Argv, o.Env, o.Dir
	if dir == "" {
		dir = layout.WorkspaceDir
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return 0, refusal(fmt.Sprintf("The working directory %s does not exist in the sandbox.", clipName(dir)))
	}
	program, err := lookUp(argv[0], env, dir)
	if err != nil {
		return 0, err
	}
	resetIgnoredSignals()
	attr := &syscall.SysProcAttr{Setsid: true}
	if userRange {
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

// lookUp returns the path of a program. A name with a slash is a path, relative to
// dir; any other name is looked up in the PATH of env. Errors are refusals.
func lookUp(name string, env []string, dir string) (string, error) {
	if strings.ContainsRune(name, '/') {
		file := name
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		switch st, err := os.Stat(file); {
		case err != nil:
			return "", refusal(fmt.Sprintf("The program %s does not exist in the sandbox.", clipName(name)))
		case !executable(st):
			return "", refusal(fmt.Sprintf("The file %s is not an executable program.", clipName(name)))
		}
		return file, nil
	}
	search := pathOf(env)
	for dir := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(dir) {
			continue // relative PATH entries are ignored
		}
		file := path.Join(dir, name)
		if st, err := os.Stat(file); err == nil && executable(st) {
			return file, nil
		}
	}
	return "", refusal(fmt.Sprintf("There is no program %q in the sandbox's PATH (%s).", clipName(name), clipName(search)))
}

// defaultPath is the PATH if the environment has none.
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

// explainExec returns a refusal with the usual reason for an error of execve.
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
	return refusal(fmt.Sprintf("The program %s cannot be started: %s.", clipName(name), reason))
}
