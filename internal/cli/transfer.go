package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/cli/folder"
)

func (t treeCommands) push() *cobra.Command {
	var o client.PushOptions
	c := &cobra.Command{
		Use:   "push NAME DIR",
		Short: fmt.Sprintf("Store a folder as the new version of a %s", t.kind),
		Long: fmt.Sprintf(`Push stores the files below DIR as the new version of a %s, which is made when
it is missing. When they equal the current version nothing changes.

What the patterns of a %s file name is left out; they are written as
in .gitignore and rule the folder that the file stands in.`, t.kind, folder.IgnoreFile),
		Args: exactly("NAME", "DIR"),
	}
	c.Flags().StringVarP(&o.Message, "message", "m", "", "what this version is about")
	c.Flags().StringVar(&o.IfMatch, "if-match", "", "store only if this version is the current one")
	c.RunE = t.a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		if stint.CheckName("", args[1]) == nil && isDir(t.a.path(args[0])) && !isDir(t.a.path(args[1])) {
			return usage(c, "there is no folder '%s'; did you mean: %s %s %s", args[1], c.CommandPath(), args[1], quote(args[0]))
		}
		return t.pushFolder(ctx, args[0], args[1], o)
	})
	return c
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// pushedTree tells what a push did.
type pushedTree struct {
	stint.TreeVersion
	Name    string `json:"name"`
	Changed bool   `json:"changed"`
}

func (t treeCommands) pushFolder(ctx context.Context, name, dir string, o client.PushOptions) error {
	files, err := folder.Open(ctx, t.a.path(dir))
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }() // only read from
	for _, skipped := range files.Skipped {
		t.a.note("%s is left out: it is no file, folder or link.", skipped)
	}
	trees, err := t.trees()
	if err != nil {
		return err
	}
	tree, err := findOrCreate(ctx, trees, name)
	if err != nil {
		return err
	}
	v, changed, err := t.send(ctx, trees, tree.ID, files, o)
	if err != nil {
		return err
	}
	if t.a.json {
		return t.a.printJSON(pushedTree{*v, tree.Name, changed})
	}
	if !changed {
		t.a.note("The %s %s is unchanged, at %s.", t.kind, tree.Name, v.ID)
		return nil
	}
	t.a.note("Stored %s@%s: %s, %s.", tree.Name, v.ID, filesText(v.FileCount), bytesText(v.Size))
	return nil
}

func findOrCreate(ctx context.Context, trees *client.Trees, name string) (*stint.Tree, error) {
	tree, err := trees.Find(ctx, name)
	if !client.IsCode(err, stint.CodeResourceNotFound) || stint.IsID(trees.Kind().Prefix(), name) {
		return tree, err
	}
	return trees.Create(ctx, name)
}

// send packs and uploads at once, through a pipe.
func (t treeCommands) send(ctx context.Context, trees *client.Trees, id string, files *folder.Folder, o client.PushOptions) (*stint.TreeVersion, bool, error) {
	bar := t.a.progress("pushed", files.Size)
	defer bar.done()
	out, in := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		in.CloseWithError(files.Pack(ctx, in, bar.add)) // nil ends the pipe with EOF
	}()
	v, changed, err := trees.Push(ctx, id, out, &o)
	_ = out.CloseWithError(errors.New("the upload has ended")) // wakes the packer; never fails
	<-packed
	return v, changed, err
}

func (t treeCommands) pull() *cobra.Command {
	return &cobra.Command{
		Use:   "pull NAME[@VERSION] DIR",
		Short: "Write the files of a version into a folder",
		Long: `Pull writes the files of a version into DIR, which is made when it is missing.
Files of the same name are replaced, others stay. Nothing is written outside of
DIR. VERSION is an ID or a number, the current one where it is left out.`,
		Args: exactly("NAME", "DIR"),
		RunE: t.a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			name, version := cutVersion(args[0])
			trees, tree, err := t.find(ctx, name)
			if err != nil {
				return err
			}
			dir := t.a.path(args[1])
			done, err := t.a.fetch(ctx, trees, tree.ID, version, dir)
			if err != nil {
				return err
			}
			if t.a.json {
				return t.a.printJSON(map[string]any{"id": tree.ID, "name": tree.Name, "version": version, "dir": dir, "files": done.Files, "size": done.Size})
			}
			t.a.note("Wrote %s, %s, into %s.", filesText(done.Files), bytesText(done.Size), dir)
			return nil
		}),
	}
}

// fetch downloads a version and unpacks it at once, through a pipe.
func (a *app) fetch(ctx context.Context, trees *client.Trees, id, version, dir string) (folder.Unpacked, error) {
	bar := a.progress("pulled", 0)
	defer bar.done()
	if version == "latest" {
		version = ""
	}
	out, in := io.Pipe()
	var failed error
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		_, failed = trees.Download(ctx, id, version, bar.writer(in))
		in.CloseWithError(failed)
	}()
	done, err := folder.Unpack(ctx, out, dir)
	_ = out.CloseWithError(errUnpacked) // wakes the download; never fails
	<-loaded
	if failed != nil && !errors.Is(failed, errUnpacked) {
		return done, failed
	}
	return done, err
}

var errUnpacked = errors.New("unpacking has ended")
