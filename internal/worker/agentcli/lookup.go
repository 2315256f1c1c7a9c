package agentcli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

// program is an executable file of the host.
type program struct {
	at   string // absolute path at which it was found
	real string // the same path with symbolic links resolved
}

var (
	errMissing  = errors.New("not installed")
	errVariable = errors.New("the file that a variable names is missing")
)

// variable returns the environment variable with the path of a framework's
// program.
func variable(framework string) string {
	return "STINT_" + strings.ReplaceAll(strings.ToUpper(framework), "-", "_") + "_BIN"
}

// lookUp returns the program that the framework's variable names. If the variable is
// not set, it returns the first of the names that is installed.
func (f *Finder) lookUp(framework string, names []string) (program, error) {
	if file := f.c.Getenv(variable(framework)); file != "" {
		p, err := f.locate(file)
		if err != nil {
			return program{}, errVariable
		}
		return p, nil
	}
	for _, name := range names {
		if p, err := f.locate(name); err == nil {
			return p, nil
		}
	}
	return program{}, errMissing
}

// locate returns the program at a path. A name without a slash is looked up on the
// worker's PATH.
func (f *Finder) locate(name string) (program, error) {
	if strings.Contains(name, "/") {
		return executable(name)
	}
	for _, dir := range filepath.SplitList(f.c.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue // never look in the working directory
		}
		if p, err := executable(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return program{}, errMissing
}

func executable(path string) (p program, err error) {
	if p.at, err = filepath.Abs(path); err != nil {
		return p, err
	}
	if p.real, err = filepath.EvalSymlinks(p.at); err != nil {
		return p, err
	}
	st, err := os.Stat(p.real)
	if err == nil && (!st.Mode().IsRegular() || st.Mode()&0o111 == 0) {
		err = fs.ErrPermission
	}
	return p, err
}

// missing returns an error that says what to do about a missing program.
func missing(info framework.Info, err error) error {
	name, env := info.Programs[0], variable(info.Name)
	if errors.Is(err, errVariable) {
		return stint.InvalidParam("framework", "The framework '%s' needs the program '%s', but the file that %s names on this server is not a program that can be started. Correct it, and try again.", info.Name, name, env)
	}
	return stint.InvalidParam("framework", "The framework '%s' needs the program '%s', which is not installed on this server. Install it%s or name it by %s, and try again.", info.Name, name, installHint(info), env)
}

func installHint(info framework.Info) string {
	if info.Install == "" {
		return ""
	}
	return " (" + info.Install + ")"
}

func missingAgent(name string, err error) error {
	if errors.Is(err, errVariable) {
		return stint.InvalidParam("framework", "The file that %s names on this server is not a program that can be started. Correct it, and try again.", variable(acp))
	}
	return stint.InvalidParam("command[0]", "The program '%s' is not installed on this server. Install it where the server's PATH finds it, and try again.", name)
}
