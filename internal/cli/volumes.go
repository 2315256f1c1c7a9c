package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// volumeCommands creates the commands for volumes or for artifacts.
type volumeCommands struct {
	a    *app
	kind stint.FileSetKind
}

func (a *app) volumes(kind stint.FileSetKind) *cobra.Command {
	t := volumeCommands{a, kind}
	short := "Give files to agents: versioned folders that runs read"
	if kind == stint.Artifacts {
		short = "Get files from agents: versioned folders that runs write"
	}
	return a.parent(string(kind), short, t.create(), t.push(), t.pull(), t.list(), t.versions(), t.files(), t.cat(), t.diff(), t.promote(), t.keep(), t.remove())
}

func treesOf(c *client.Client, kind stint.FileSetKind) *client.FileSets {
	if kind == stint.Artifacts {
		return c.Artifacts
	}
	return c.Volumes
}

// cutVersion splits NAME@VERSION. The default version is "latest".
func cutVersion(s string) (name, version string) {
	name, version, _ = cutRef(s)
	if version == "" {
		version = "latest"
	}
	return name, version
}

// pinned returns the ID of the current version if version is "latest", so that all
// requests of a command use the same version. Otherwise it returns version.
func pinned(tree *stint.FileSet, version string) string {
	if version == "latest" && tree.CurrentVersionID != nil {
		return *tree.CurrentVersionID
	}
	return version
}

func (t volumeCommands) create() *cobra.Command {
	return &cobra.Command{
		Use: "create NAME", Short: fmt.Sprintf("Create an empty %s", t.kind), Args: exactly("NAME"),
		RunE: t.a.call(func(ctx context.Context, c *client.Client, args []string) error {
			made, err := treesOf(c, t.kind).Create(ctx, args[0])
			if err != nil {
				return err
			}
			return t.a.printResult(made, "Created the %s %s (%s).", t.kind, made.Name, made.ID)
		}),
	}
}

func (t volumeCommands) list() *cobra.Command {
	list := func(ctx context.Context, c *client.Client) iter.Seq2[stint.FileSet, error] {
		return treesOf(c, t.kind).List(ctx)
	}
	return listCommand(t.a, fmt.Sprintf("List the %ss", t.kind), fmt.Sprintf("No %ss.", t.kind), "ID NAME VERSION FILES SIZE UPDATED", list, func(x stint.FileSet) []string {
		return []string{x.ID, x.Name, deref(x.CurrentVersionID), fmt.Sprint(x.FileCount), bytesText(x.Size), x.UpdatedAt.String()}
	})
}

func (t volumeCommands) versions() *cobra.Command {
	var graph bool
	c := &cobra.Command{
		Use: "versions NAME", Short: "List the versions of " + withArticle(t.kind), Args: exactly("NAME"),
		Long: `List the versions, newest first. With --graph, the output shows which version
each was made from: the one that the run started from, or the one that was
current before a push. The current version has a filled circle.`,
	}
	c.Flags().BoolVar(&graph, "graph", false, "draw which version each version was made from")
	c.RunE = t.a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
		trees, tree, err := t.find(ctx, args[0])
		if err != nil {
			return err
		}
		if graph && !t.a.json {
			return t.a.showGraph(ctx, trees, tree)
		}
		return printList(t.a, trees.Versions(ctx, tree.ID), 0, "No versions.", "VERSION FILES SIZE CREATED BY MESSAGE", func(v stint.FileSetVersion) []string {
			return []string{v.ID, fmt.Sprint(v.FileCount), bytesText(v.Size), v.CreatedAt.String(), v.CreatedBy, clip(v.Message, 60)}
		})
	})
	return c
}

// find returns the volume or artifact that a reference stands for, and the client for
// its kind.
func (t volumeCommands) find(ctx context.Context, name string) (*client.FileSets, *stint.FileSet, error) {
	c, err := t.a.client()
	if err != nil {
		return nil, nil, err
	}
	trees := treesOf(c, t.kind)
	tree, err := findTree(ctx, c, t.kind, name)
	return trees, tree, err
}

func (t volumeCommands) files() *cobra.Command {
	return &cobra.Command{
		Use: "files NAME[@VERSION]", Short: "List the files of a version", Args: exactly("NAME"),
		RunE: t.a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			name, version := cutVersion(args[0])
			trees, tree, err := t.find(ctx, name)
			if err != nil {
				return err
			}
			return printList(t.a, trees.Files(ctx, tree.ID, pinned(tree, version)), 0, "No files.", "MODE SIZE PATH", func(f stint.FileEntry) []string {
				path := f.Path
				switch f.Kind {
				case "dir":
					path = strings.TrimSuffix(path, "/") + "/"
				case "symlink":
					path += " -> " + f.Target
				}
				return []string{f.Mode, fmt.Sprint(f.Size), path}
			})
		}),
	}
}

func (t volumeCommands) cat() *cobra.Command {
	c := &cobra.Command{
		Use: "cat NAME[@VERSION] PATH", Short: "Print a file of a version", Args: exactly("NAME", "PATH"),
		RunE: t.a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			name, version := cutVersion(args[0])
			trees, tree, err := t.find(ctx, name)
			if err != nil {
				return err
			}
			in, err := trees.ReadFile(ctx, tree.ID, version, strings.TrimPrefix(args[1], "/"))
			if err != nil {
				return err
			}
			defer in.Close()
			if _, err := io.Copy(t.a.Stdout, in); err != nil {
				return fmt.Errorf("read %s: %w", args[1], err)
			}
			return nil
		}),
	}
	t.a.rawFlag(c)
	return c
}
