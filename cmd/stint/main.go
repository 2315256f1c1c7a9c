// Command stint runs agents as a service: server, worker and command line in
// one program.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/process"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
	"github.com/stint-dev/stint/internal/server"
	"github.com/stint-dev/stint/internal/telemetry"
)

func main() {
	namespace.MaybeInit() // a sandbox starts as this program; it does not return there
	os.Exit(run())
}

func run() int {
	env, stop, err := process.Env()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stint: "+err.Error())
		return 1
	}
	defer stop()
	env.Serve, env.Probe = serve, probe
	return cli.Main(context.Background(), env)
}

func serve(ctx context.Context, c config.Config, ready func(cli.Serving)) error {
	log, err := telemetry.Logger(os.Stderr, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	return server.Run(ctx, c, server.Options{
		Logger: log,
		Ready:  func(i server.Info) { ready(cli.Serving(i)) },
	})
}

// probe tries the sandbox with a state folder of its own.
func probe(ctx context.Context) sandbox.Report {
	report := sandbox.Report{Driver: "namespace"}
	dir, err := os.MkdirTemp("", "stint-doctor-")
	if err != nil {
		report.Notes = []string{err.Error()}
		return report
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary
	driver, err := namespace.New(namespace.Config{StateDir: dir, Instance: fmt.Sprintf("doctor-%d", os.Getpid())})
	if err != nil {
		report.Notes = []string{err.Error()}
		return report
	}
	defer func() { _ = driver.Close() }() // nothing was made with it
	return driver.Probe(ctx)
}
