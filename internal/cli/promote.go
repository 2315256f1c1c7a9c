package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (t volumeCommands) promote() *cobra.Command {
	var ifMatch string
	c := &cobra.Command{
		Use: "promote NAME@VERSION", Short: "Make a version the current one", Args: exactly("NAME@VERSION"),
		Long: fmt.Sprintf(`Make a version the current one: runs that start with the latest version
of the %[1]s start with it, and the next push becomes its child. No version is
removed, so the previous one can be promoted again.`, t.kind),
	}
	c.Flags().StringVar(&ifMatch, "if-match", "", "promote only if this version is the current one")
	c.RunE = t.a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		name, version, ok := cutRef(args[0])
		if !ok || version == "" {
			return usage(c, "the version is missing: name it as %s@v1", plain(name))
		}
		trees, tree, err := t.find(ctx, name)
		if err != nil {
			return err
		}
		if ifMatch, err = t.expected(ctx, trees, tree, ifMatch); err != nil {
			return err
		}
		v, err := trees.Promote(ctx, tree.ID, version, ifMatch)
		if err != nil {
			return err
		}
		was := ""
		if tree.CurrentVersionID != nil && *tree.CurrentVersionID != v.ID {
			was = " It was " + shortVersion(*tree.CurrentVersionID) + "."
		}
		return t.a.printResult(v, "%s@%s is now current.%s", tree.Name, shortVersion(v.ID), was)
	})
	return c
}
