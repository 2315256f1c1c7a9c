package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) usageOf() *cobra.Command {
	return &cobra.Command{
		Use:   "usage",
		Short: "Show the storage usage and limit of your organisation",
		Long: `Usage shows what your organisation stores. The limit applies to the compressed
data, in which content that several versions share counts once. Deleted versions
count until the server's garbage collection has removed their data.`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			u, err := c.Usage(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(u)
			}
			limit := "no limit"
			if u.LimitBytes != nil {
				limit = fmt.Sprintf("%.0f %% of %s", 100*float64(u.StoredBytes)/float64(*u.LimitBytes), bytesText(*u.LimitBytes))
			}
			_, err = fmt.Fprintf(a.Stdout, "Stored       %s in %d objects (%s)\nVersions     %d of %d artifacts and %d volumes, %s if each were kept in full\nCheckpoints  %d\n",
				bytesText(u.StoredBytes), u.StoredObjects, limit, u.Versions, u.Artifacts, u.Volumes, bytesText(u.VersionBytes), u.Checkpoints)
			return err
		}),
	}
}
