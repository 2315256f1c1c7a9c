package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/client"
)

func (a *app) usageOf() *cobra.Command {
	return &cobra.Command{
		Use:   "usage",
		Short: "Show the storage usage and limit of your organisation",
		Long: `Show what your organisation stores. The limit applies to the compressed
data, in which content that several versions share counts once. Deleted versions
count until the server's garbage collection has removed their data.`,
		Args: exactly(),
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			u, err := c.Usage(ctx)
			if err != nil {
				return err
			}
			limit := "no limit"
			if u.LimitBytes != nil {
				limit = fmt.Sprintf("%.0f %% of %s", 100*float64(u.StoredBytes)/float64(*u.LimitBytes), bytesText(*u.LimitBytes))
			}
			return a.printLine(u, "Stored       %s in %s (%s)\nVersions     %d of %s and %s, %s if each were kept in full\nCheckpoints  %d",
				bytesText(u.StoredBytes), count(u.StoredObjects, "object"), limit, u.Versions, count(u.Artifacts, "artifact"), count(u.Volumes, "volume"), bytesText(u.VersionBytes), u.Checkpoints)
		}),
	}
}
