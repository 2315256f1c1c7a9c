package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/maintenance"
)

func (a *app) gc() *cobra.Command {
	var data, grace string
	var dryRun bool
	c := &cobra.Command{
		Use:   "gc",
		Short: "Delete unreferenced files from the storage",
		Long: `Delete stored files that no version, checkpoint, or run of any organisation
refers to. A server does the same regularly (see --gc-every of 'stint serve').
The server that runs on this data folder does the work, or this command if there
is none. Runs and pushes can continue meanwhile.

A collection marks unreferenced data that is older than the grace period, and the
next collection deletes it. With --grace 0, unreferenced data is deleted at once:
use this only while no other process stores files.`,
		Args: exactly(),
	}
	dataFlag(c, &data)
	c.Flags().StringVar(&grace, "grace", "", "minimum age of unreferenced data to be deleted, such as 24h (default: the server's setting)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, and change nothing")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, _ []string) error {
		cfg, err := a.serverConfig(data)
		if err != nil {
			return err
		}
		in := map[string]any{"dryRun": dryRun}
		o := maintenance.CollectOptions{Grace: cfg.GCGrace, DryRun: dryRun}
		if grace != "" {
			if o.Grace, err = config.ParseDuration(grace); err != nil {
				return usage(c, "--grace: %s", err)
			}
			in["graceMs"] = o.Grace.Milliseconds()
		}
		return a.maintain(ctx, cfg, "/gc", in, func(u Maintenance, report func(maintenance.Report)) error { return u.Collect(ctx, o, report) })
	})
	return c
}
