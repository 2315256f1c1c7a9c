package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/maintenance"
)

// errDamaged is the error of a check that found damage and did not repair all of it.
var errDamaged = errors.New("stored data is damaged")

func (a *app) fsck() *cobra.Command {
	var data string
	var o maintenance.CheckOptions
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Check that all stored files are present and undamaged",
		Long: `Read all data of the versions and checkpoints of every organisation, and list
what is damaged and which files are affected. The server that runs on this data
folder does the work, or this command if there is none. The exit code is 1 if
damage is left.

With --repair, damaged data is restored from other copies of the same content.
If there is no copy, push the files again as a volume of another name, and repair
once more. This also repairs the old versions.`,
		Args: exactly(),
	}
	dataFlag(c, &data)
	c.Flags().BoolVar(&o.Repair, "repair", false, "restore damaged data from other copies")
	c.Flags().BoolVar(&o.Quick, "quick", false, "check that objects exist, without reading them")
	c.RunE = a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		cfg, err := a.serverConfig(data)
		if err != nil {
			return err
		}
		return a.maintain(ctx, cfg, "/fsck", o, func(u Maintenance, report func(maintenance.Report)) error { return u.Check(ctx, o, report) })
	})
	return c
}
