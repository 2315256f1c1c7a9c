package installation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed of a random test, which is the number in STINT_TEST_SEED or a
// random number, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("STINT_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		Check(t, err)
	}
	t.Logf("STINT_TEST_SEED=%d", seed)
	return seed
}

// Main runs the tests, removes the program that Binary built, and exits.
func Main(m *testing.M) {
	code := m.Run()
	if err := CleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Parallel sets the number of tests that run in parallel to n, unless the command line
// sets it. Packages use it if their tests mostly wait.
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
