// Command stint runs agents as a service. It contains the server, the worker,
// and the command line.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/assistant"
	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/osenv"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/sandbox/gvisor/embedded"
	"github.com/stint-dev/stint/internal/telemetry"
)

func main() {
	// A sandbox can start this binary as runsc or as the built-in assistant. In such a
	// process, MaybeRunsc or os.Exit does not return.
	embedded.MaybeRunsc()
	if len(os.Args) > 1 && os.Args[1] == protocol.Verb {
		os.Exit(assistant.Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run())
}

func run() int {
	env, stop, err := osenv.New()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stint: "+err.Error())
		return 1
	}
	defer stop()
	env.Serve, env.Isolations, env.Probe, env.Programs = serve, app.Isolations, app.Probe, app.Programs
	env.OpenKeys = func(ctx context.Context, c config.Config) (cli.Keys, error) { return app.OpenKeys(ctx, c) }
	env.OpenMaintenance = func(ctx context.Context, c config.Config) (cli.Maintenance, error) {
		return app.OpenMaintenance(ctx, c)
	}
	return cli.Main(context.Background(), env)
}

func serve(ctx context.Context, c config.Config, ready func(cli.ServerInfo)) error {
	log, err := telemetry.Logger(os.Stderr, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	return app.Run(ctx, c, app.Options{
		Logger: log,
		Ready:  func(i app.Info) { ready(cli.ServerInfo(i)) },
	})
}
