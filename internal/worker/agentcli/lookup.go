package agentcli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

// program is a file of the host.
type program struct {
	at   string // as it was found
	real string // without links
}

var (
	errMissing = errors.New("not installed")
	errNamed   = errors.New("named by a variable, but not there")
)

// variable names the program of a framework to the worker.
func variable(framework string) string {
	return "STINT_" + strings.ReplaceAll(strings.ToUpper(framework), "-", "_") + "_BIN"
}

// lookUp finds the first program that is installed.
func (f *Finder) lookUp(framework string, names []string) (program, error) {
	if named := f.c.Getenv(variable(framework)); named != "" {
		p, err := f.locate(named)
		if err != nil {
			return program{}, errNamed
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

// locate finds one program: on the PATH unless it is a path itself.
func (f *Finder) locate(name string) (program, error) {
	if strings.Contains(name, "/") {
		return executable(name)
	}
	for _, dir := range filepath.SplitList(f.c.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue // the worker's own folder is nobody's place for programs
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
	if err != nil {
		return p, err
	}
	if !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return p, fs.ErrPermission
	}
	return p, nil
}

// missing says what to do about a program that is not there.
func missing(of framework.Info, err error) error {
	name := of.Programs[0]
	if errors.Is(err, errNamed) {
		return stint.InvalidParam("framework", "The framework '%s' needs the program '%s', but the file that %s names on this server is no program that can be started. Correct it, and try again.", of.Name, name, variable(of.Name))
	}
	return stint.InvalidParam("framework", "The framework '%s' needs the program '%s', which is not installed on this server. Install it%s or name it by %s, and try again.", of.Name, name, how(of), variable(of.Name))
}

func how(of framework.Info) string {
	if of.Install == "" {
		return ""
	}
	return " (" + of.Install + ")"
}

func missingAgent(name string, err error) error {
	if errors.Is(err, errNamed) {
		return stint.InvalidParam("framework", "The file that %s names on this server is no program that can be started. Correct it, and try again.", variable(acp))
	}
	return stint.InvalidParam("command[0]", "The program '%s' is not installed on this server. Install it where the server's PATH finds it, and try again.", name)
}

// checked gives the version of a program, and refuses one that is too old.
// One that does not tell its version is given a try.
func (f *Finder) checked(ctx context.Context, of framework.Info, p program) (string, error) {
	version, err := f.version(ctx, p)
	if err != nil {
		return "", err
	}
	if version != "" && older(version, of.MinVersion) {
		return "", stint.InvalidParam("framework", "The framework '%s' needs the program '%s' from version %s on, but %s is installed on this server. Update it%s, and try again.", of.Name, filepath.Base(p.at), of.MinVersion, version, how(of))
	}
	return version, nil
}
