package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/client"
)

func (t volumeCommands) keep() *cobra.Command {
	var release bool
	c := &cobra.Command{
		Use:   "keep NAME@VERSION...",
		Short: "Protect versions from the server's retention rules",
		Long: `Protect versions from deletion by the server's retention rules. With
--release the rules apply again.`,
		Args: atLeast("NAME@VERSION"),
	}
	c.Flags().BoolVar(&release, "release", false, "apply the retention rules again")
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
			if err := t.a.printResult(map[string]any{"id": tree.ID + "@" + version, "name": tree.Name, done: true}, "%s@%s was %s.", nameOf(t.kind.Prefix(), name, tree.Name), version, done); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

func (t volumeCommands) remove() *cobra.Command {
	c := t.a.each("rm NAME[@VERSION]...", fmt.Sprintf("Remove %ss with all their versions, or single versions", t.kind), "removed", func(ctx context.Context, c *client.Client, arg string) (id, name string, err error) {
		ref, version, single := cutRef(arg)
		if single && version == "" {
			return "", "", &usageError{fmt.Sprintf("the version is missing: name it as %s@v1", plain(ref)), fmt.Sprintf("stint %s rm", t.kind)}
		}
		trees := treesOf(c, t.kind)
		tree, err := findTree(ctx, c, t.kind, ref)
		if err != nil {
			return "", "", err
		}
		name = nameOf(t.kind.Prefix(), ref, tree.Name)
		if single {
			return tree.ID + "@" + version, name + "@" + version, trees.DeleteVersion(ctx, tree.ID, version)
		}
		return tree.ID, name, trees.Delete(ctx, tree.ID)
	})
	c.Long = fmt.Sprintf(`Remove %ss with all their versions or, as NAME@VERSION, one version that
is not the current one, is not protected, and is not used by a checkpoint or an
active run.

Files of a checkpoint stay readable for runs that continue from it. Unreferenced
data is deleted by the server's next garbage collections.`, t.kind)
	return c
}
