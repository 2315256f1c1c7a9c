package compatibility_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if err := installation.CleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
