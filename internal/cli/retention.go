package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (t volumeCommands) keep() *cobra.Command {
	var release bool
	c := &cobra.Command{
		Use:   "keep NAME@VERSION...",
		Short: "Keep versions whatever the server's rules of retention say",
		Long: `Keep asks that versions stay, however old they get and however many follow
them. With --release they are left to the server's rules again.`,
		Args: atLeast("NAME@VERSION"),
	}
	c.Flags().BoolVar(&release, "release", false, "leave the versions to the rules again")
	c.RunE = t.a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
		for _, arg := range args {
			name, version := cutVersion(arg)
			trees, tree, err := t.find(ctx, name)
			if err != nil {
				return err
			}
			done := "kept"
			if release {
				done, err = "released", trees.Release(ctx, tree.ID, version)
			} else {
				err = trees.Keep(ctx, tree.ID, version)
			}
			if err != nil {
				return err
			}
			if err := t.a.printDone(done, tree.ID+"@"+version); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

func (t volumeCommands) remove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME[@VERSION]...",
		Short: fmt.Sprintf("Remove %ss with all their versions, or single versions", t.kind),
		Long: fmt.Sprintf(`Rm removes %ss with all their versions or, as NAME@VERSION, one version that
is not the current one, is not kept and is named by no checkpoint.

What a checkpoint names stays readable to runs that go on from it. The bytes of
what nothing names any more are deleted by the server's next collections.`, t.kind),
		Args: atLeast("NAME"),
		RunE: t.a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			for _, arg := range args {
				name, version, single := strings.Cut(arg, "@")
				trees, tree, err := t.find(ctx, name)
				if err != nil {
					return err
				}
				removed := tree.ID
				if single {
					removed += "@" + version
					err = trees.DeleteVersion(ctx, tree.ID, version)
				} else {
					err = trees.Delete(ctx, tree.ID)
				}
				if err != nil {
					return err
				}
				if err := t.a.printDone("removed", removed); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func (a *app) usageOf() *cobra.Command {
	return &cobra.Command{
		Use:   "usage",
		Short: "Show what your organisation keeps, and how much it may",
		Long: `Usage shows what your organisation keeps. What counts toward its limit is what
lies in the storage: compressed, each piece once however many versions hold it.
Deleted versions count until the server's collections have removed their bytes.`,
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
