// Command stint-bench measures Stint and the machine under it in the same run.
//
// Each scenario also measures an anchor: what the machine itself achieves at
// that moment (a synced write, a bare HTTP handler, another program). Ratios to
// the anchor can be compared between machines and hours; absolute values cannot.
//
// Scenarios use `stint serve` in a child process where they can, so a given
// binary can be measured. The others measure the packages that are linked into
// this program. Everything runs in temporary folders on the loopback interface.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/sandbox/gvisor/embedded"
)

func main() {
	// Sandboxes start this binary; this call does not return there.
	embedded.MaybeRunsc()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 1 if something could not be measured, 2 for wrong
// usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && partners[args[0]] != nil {
		if err := catch(func() { partners[args[0]](ctx, args[1:], stdout) }); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	o := options{progress: stderr}
	var asJSON bool
	flags := pflag.NewFlagSet("stint-bench", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { usage(stderr, flags) }
	flags.BoolVar(&o.quick, "quick", false, "measure smaller amounts")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.StringVar(&o.stint, "stint", "", "`path` of the stint binary to measure (default: ./cmd/stint is built)")
	flags.StringVar(&o.data, "data", "", "`folder` for temporary files, on the disk to be measured (default: the system's)")
	flags.StringVar(&o.database, "database", os.Getenv("STINT_DATABASE"), "PostgreSQL to measure instead of SQLite, as a postgres:// `URL`; databases are created and dropped there")
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	var chosen []scenario
	if err == nil {
		chosen, err = choose(flags.Args())
	}
	if err != nil {
		fmt.Fprintln(stderr, "stint-bench:", err)
		return 2
	}
	report, err := measure(ctx, o, chosen)
	switch {
	case err != nil:
	case asJSON:
		err = json.NewEncoder(stdout).Encode(report)
	default:
		err = report.Write(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "stint-bench:", err)
		return 1
	}
	return min(report.count(Broken), 1)
}

func usage(w io.Writer, flags *pflag.FlagSet) {
	fmt.Fprint(w, `Usage: stint-bench [flags] [scenario...]

Without a scenario, all are measured. SHORT means that a goal was missed, which is
a result. ERROR means that something could not be measured; the exit code is then 1.

Scenarios:
`)
	for _, s := range scenarios {
		fmt.Fprintf(w, "  %-12s %s\n", s.name, s.about)
	}
	fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsages())
}
