package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

var errMissing = errors.New("PostgreSQL is not installed (make deps)")

// findBinaries returns the folder that contains initdb and postgres. It prefers the
// newest version in the folders of Debian, which are not in PATH. If PostgreSQL is not
// installed, it returns errMissing.
func findBinaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })), nil
	}
	onPath, err := exec.LookPath("initdb")
	if err != nil {
		return "", errMissing
	}
	real, err := filepath.EvalSymlinks(onPath)
	if err != nil {
		return "", err
	}
	return filepath.Dir(real), nil
}

// major returns the version in the path of initdb, such as 15 for
// /usr/lib/postgresql/15/bin/initdb, or 0 if the version is not a number.
func major(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// owner is the user that runs the server. It is the current user, except on Linux if the
// current user is root: PostgreSQL refuses to run as root, so the owner is postgres.
type owner struct {
	other    bool // the owner is not the current user
	uid, gid int
}

// take gives a folder to the owner and denies access to other users.
func (o owner) take(dir string) error {
	if err := os.Chmod(dir, 0o700); err != nil || !o.other {
		return err
	}
	return os.Chown(dir, o.uid, o.gid)
}
