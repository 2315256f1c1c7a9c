package service_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
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

func clientFilter(s stint.Status) client.RunFilter {
	return client.RunFilter{Statuses: []stint.Status{s}}
}
