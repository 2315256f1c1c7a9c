package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/bench"
)

func (a *app) bench() *cobra.Command {
	var o bench.Options
	c := &cobra.Command{
		Use:   "bench [SCENARIO...]",
		Short: "Measure the service and this machine in the same call",
		Long: `Bench starts servers of its own in temporary folders, loads them over the loopback
interface and prints what it measured, beside what the machine itself gave at the
same time. The ratio of the two can be compared between machines. What falls
short of its goal is said to be SHORT; that is a result, not a failure. The
command fails when something could not be measured. All of it takes ten to
twenty minutes, and measures best while nothing else runs.

Scenarios:
` + scenarioList(),
		Args: cobra.ArbitraryArgs,
	}
	flags := c.Flags()
	flags.StringSliceVar(&o.Only, "only", nil, "measure these `scenarios` alone, separated by commas")
	flags.BoolVar(&o.Quick, "quick", false, "measure smaller amounts, in some three minutes")
	flags.StringVar(&o.Data, "data", "", "`folder` to make the temporary ones in, on the disk to be measured (default: the system's)")
	flags.StringVar(&o.Database, "database", "", "PostgreSQL to measure instead of SQLite, as a postgres:// `URL`; databases are made and dropped there (also STINT_DATABASE)")
	c.RunE = a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
		o.Only = append(o.Only, args...)
		if o.Database == "" {
			o.Database = a.getenv("STINT_DATABASE")
		}
		return a.measure(ctx, o)
	})
	c.AddCommand(a.benchHost())
	return c
}

// benchHost is the other end of some scenarios; bench starts it by itself.
func (a *app) benchHost() *cobra.Command {
	return &cobra.Command{
		Use: "host", Short: "Serve a measurement", Hidden: true, Args: cobra.ArbitraryArgs,
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			return bench.Host(ctx, args, a.Stdin, a.Stdout)
		}),
	}
}

func (a *app) measure(ctx context.Context, o bench.Options) error {
	if o.Data == "" {
		o.Data = a.getenv("TMPDIR")
	} else {
		o.Data = a.path(o.Data)
	}
	o.Progress = func(scenario string) { a.note("measuring %s …", scenario) }
	report, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(report)
	} else {
		err = report.Write(a.Stdout)
	}
	if err == nil && report.Failed() {
		err = exitError(exitFailed)
	}
	return err
}

func scenarioList() string {
	var b strings.Builder
	for _, s := range bench.Scenarios() {
		fmt.Fprintf(&b, "  %-12s %s\n", s[0], s[1])
	}
	return strings.TrimRight(b.String(), "\n")
}
