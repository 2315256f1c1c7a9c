package installation

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main runs a package's tests and removes what Binary built. It ends the
// process.
func Main(m *testing.M) {
	code := m.Run()
	if err := CleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Parallel lets n tests at a time run, unless the command line says how many:
// for tests of which most is to wait.
func Parallel(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", fmt.Sprint(n)); err != nil {
		panic(err)
	}
}
