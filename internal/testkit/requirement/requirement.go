// Package requirement skips tests with unmet requirements.
//
// It is the only place that skips tests. If the environment variable
// STINT_TEST_ALL is 1, as in `make test`, an unmet requirement is a failure
// instead. If STINT_TEST_SKIPS contains the path of a file, each skip is
// appended to that file as a line; `make short` prints the file.
package requirement

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
)

// Environment variables that make targets set.
const (
	EnvAll   = "STINT_TEST_ALL"
	EnvSkips = "STINT_TEST_SKIPS"
)

// Skip skips the test for a reason, such as "PostgreSQL is not installed". It
// fails the test if STINT_TEST_ALL is 1.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if err := report(t.Name(), reason); err != nil {
		t.Fatal(err)
	}
	t.Skip(reason) //nolint:forbidigo // the only skip
}

// SkipPackage records that a TestMain skips all tests of its package for a reason. It
// returns the exit status of the test binary: 0, or 1 if STINT_TEST_ALL is 1.
func SkipPackage(reason string) int {
	if err := report("", reason); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Root skips the test if the user is not root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "the user is not root")
	}
}

// Programs skips the test if one of the programs is not in PATH.
func Programs(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Skip(t, name+" is not installed (make deps)")
		}
	}
}

// report records a skip. It returns an error if skips are not allowed.
func report(test, reason string) error {
	name := strings.TrimSuffix(packagePath()+" "+test, " ")
	if os.Getenv(EnvAll) == "1" {
		return fmt.Errorf("%s must not be skipped because %s is 1: %s", name, EnvAll, reason)
	}
	path := os.Getenv(EnvSkips)
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s: %s\n", name, reason)
	return errors.Join(err, f.Close())
}

// packagePath returns the import path of the tested package without the module.
func packagePath() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "a package"
	}
	path := strings.TrimSuffix(info.Path, ".test")
	if _, rest, ok := strings.Cut(path, "/stint/"); ok {
		return rest
	}
	return path
}
