package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/osenv"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/framework/fakecli"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// TestMain makes the test binary act as stint, as a child process of stint-bench, or as
// an agent, if it is started with the arguments of one of them.
func TestMain(m *testing.M) {
	fakecli.Main()
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "version") {
		os.Exit(runStint())
	}
	if len(os.Args) > 1 && partners[os.Args[1]] != nil {
		main()
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"STINT_CLAUDE_CODE_BIN", "STINT_CODEX_BIN"} {
		if err := os.Setenv(name, self); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m)
}

func runStint() int {
	env, stop, err := osenv.New()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	env.Serve = func(ctx context.Context, c config.Config, ready func(cli.ServerInfo)) error {
		return app.Run(ctx, c, app.Options{Ready: func(i app.Info) { ready(cli.ServerInfo(i)) }})
	}
	return cli.Main(context.Background(), env)
}
