package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// logFlags are the flags of the command "logs".
type logFlags struct {
	types                   []string
	since, until            string
	follow, reverse, native bool
	limit                   int
}

// logs returns the command "logs", which exists as a command of its own and as a
// subcommand of "runs".
func (a *app) logs() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use: "logs RUN", Short: "Print the log of a run: agent, system and network",
		Long: `Print the agent's output, messages of the system, and the decisions about the
network of a run, with their times. With --follow, further entries are printed as
they are stored, until the run has ended, also after a restart of the server. Their
order can differ a little from that of their times.`,
		Args: exactly("RUN"),
	}
	flags := c.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "wait for further entries until the run has ended")
	flags.StringSliceVar(&f.types, "type", []string{"all"}, "all, or some of agent, system and network, separated by commas")
	flags.BoolVar(&f.native, "native", false, "include lines of the agent's own protocol; --json always includes them")
	flags.StringVar(&f.since, "since", "", "only entries since: a time, or a duration ago such as 5m")
	flags.StringVar(&f.until, "until", "", "only entries until: a time, or a duration ago")
	flags.BoolVar(&f.reverse, "desc", false, "newest first")
	a.rawFlag(c)
	flags.IntVar(&f.limit, "limit", 0, "maximum number of entries; 0 for all")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		filter, err := f.filter(a, c)
		if err != nil {
			return err
		}
		return a.printLogs(ctx, args[0], filter, &f)
	})
	return c
}

// filter checks the flags and returns the filter for the server. If several types were
// given, the filter selects all of them.
func (f *logFlags) filter(a *app, c *cobra.Command) (filter client.LogFilter, err error) {
	filter = client.LogFilter{Descending: f.reverse, PageSize: f.limit}
	for _, kind := range f.types {
		if !slices.Contains([]string{"all", "agent", "system", "network"}, kind) {
			return filter, usage(c, "--type: '%s' is not one of all, agent, system, network", kind)
		}
	}
	if len(f.types) == 1 && f.types[0] != "all" {
		filter.Type = stint.LogType(f.types[0])
	}
	if f.limit < 0 {
		return filter, usage(c, "--limit: %d is negative", f.limit)
	}
	if f.follow && (f.reverse || f.until != "") {
		return filter, usage(c, "--follow excludes --desc and --until")
	}
	if filter.Since, err = a.parseTime(f.since); err != nil {
		return filter, usage(c, "--since: %s", err)
	}
	if filter.Until, err = a.parseTime(f.until); err != nil {
		return filter, usage(c, "--until: %s", err)
	}
	return filter, nil
}

// selects reports whether the flags select an entry.
func (f *logFlags) selects(e *stint.LogEntry, json bool) bool {
	if e.Metadata["native"] == true && !f.native && !json {
		return false
	}
	return slices.Contains(f.types, "all") || slices.Contains(f.types, string(e.Type))
}

func (a *app) printLogs(ctx context.Context, ref string, filter client.LogFilter, f *logFlags) error {
	connect := a.client
	if f.follow {
		connect = a.follower
	}
	c, err := connect()
	if err != nil {
		return err
	}
	id, err := resolve(ctx, c, stint.PrefixRun, ref)
	if err != nil {
		return err
	}
	entries := c.Runs.Logs(ctx, id, filter)
	if f.follow {
		entries = c.Runs.FollowLogs(ctx, id, filter)
	}
	n := 0
	for entry, err := range entries {
		if err == nil && !f.selects(&entry, a.json) {
			continue
		}
		if err == nil {
			err = a.printLog(entry)
		}
		if err != nil {
			return err
		}
		if n++; n == f.limit {
			break
		}
	}
	if n == 0 && !a.json {
		a.note("No log entries.")
	}
	return nil
}

func (a *app) printLog(e stint.LogEntry) error {
	if a.json {
		return a.printJSON(e)
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%s %-7s %-5s %s", e.Timestamp, e.Type, e.Level, lineBreaks.Replace(e.Message))
	if len(e.Metadata) > 0 && a.verbose {
		metadata, err := json.Marshal(e.Metadata)
		if err != nil {
			return fmt.Errorf("print a log entry: %w", err)
		}
		line.WriteString(" " + string(metadata))
	}
	_, err := fmt.Fprintln(a.Stdout, line.String())
	a.flush() // colours end with the entry
	return err
}

// lineBreaks replaces line breaks in the messages of log entries by spaces.
var lineBreaks = strings.NewReplacer("\n", " ", "\r", " ")
