package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

var errMissing = errors.New("no PostgreSQL is installed (no initdb in /usr/lib/postgresql/*/bin nor on PATH): " +
	"`make test` installs it, or set " + EnvServer + " to the URL of a server")

// findBinaries gives the folder of the newest installation. Debian keeps
// initdb and postgres off the PATH.
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

// major reads 15 from /usr/lib/postgresql/15/bin/initdb, and 0 from a name
// that is no number.
func major(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// owner is the user whom the server runs as: ourselves, or postgres when we
// are root, whom PostgreSQL refuses.
type owner struct {
	other    bool
	uid, gid int
}

// take gives a folder to the owner, who alone may then enter it.
func (o owner) take(dir string) error {
	if err := os.Chmod(dir, 0o700); err != nil || !o.other {
		return err
	}
	return os.Chown(dir, o.uid, o.gid)
}
