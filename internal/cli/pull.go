package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/internal/localdir"
)

type pullOptions struct{ dry, delete bool }

func (t volumeCommands) pull() *cobra.Command {
	var o pullOptions
	c := &cobra.Command{
		Use:   "pull NAME[@VERSION] DIR",
		Short: "Write the files of a version into a folder",
		Long: fmt.Sprintf(`Write the files of a version into DIR, which is created if it does not
exist. Existing files with the same name are replaced; others stay, unless
--delete is given. Nothing is written outside of DIR, and links that point out
of it are left out. VERSION is an ID or a number; the default is the current
version.

Only missing content is downloaded. An interrupted pull can be repeated and
continues where it stopped. --delete keeps %[1]s files in DIR and the files
that they match.`, localdir.IgnoreFile),
		Args: exactly("NAME", "DIR"),
	}
	c.Flags().BoolVar(&o.delete, "delete", false, "remove files that the version does not contain")
	c.Flags().BoolVarP(&o.dry, "dry-run", "n", false, "print what would be done, and change nothing")
	c.RunE = t.a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
		name, version := cutVersion(args[0])
		_, tree, err := t.find(ctx, name)
		if err != nil {
			return err
		}
		c, err := t.a.follower()
		if err != nil {
			return err
		}
		version = pinned(tree, version)
		dir := t.a.path(args[1])
		done, err := t.a.fetch(ctx, c, t.kind, tree.ID, version, dir, o)
		if err != nil {
			return err
		}
		return t.printPulled(tree, version, dir, done, o)
	})
	return c
}

// pullResult is the output of --json.
type pullResult struct {
	Dir     string         `json:"dir"`
	Files   int64          `json:"files"`
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Size    int64          `json:"size"`
	Version string         `json:"version"`
	Written transfer.Count `json:"written"`
	Fetched int64          `json:"fetched"` // bytes of content that were downloaded
	Deleted int64          `json:"deleted"` // entries
}

func (t volumeCommands) printPulled(tree *stint.FileSet, version, dir string, p transfer.PullResult, o pullOptions) error {
	if t.a.json {
		return t.a.printJSON(pullResult{dir, p.All.Files, tree.ID, tree.Name, p.All.Bytes, version, p.Written, p.Fetched, p.Deleted})
	}
	verb, removed := "Wrote", "Removed"
	if o.dry {
		verb, removed = "Would write", "Would remove"
	}
	t.a.note("%s %s, %s, into %s.", verb, count(p.Written.Files, "file"), bytesText(p.Written.Bytes), dir)
	if p.Deleted > 0 {
		t.a.note("%s %s that the version does not contain.", removed, count(p.Deleted, "path"))
	}
	return nil
}

// maxLeftOut is the maximum number of links that a pull lists as left out.
const maxLeftOut = 10

// fetch pulls a version into a directory.
func (a *app) fetch(ctx context.Context, c *client.Client, kind stint.FileSetKind, id, version, dir string, o pullOptions) (transfer.PullResult, error) {
	bar := a.progress("pulled")
	done, err := transfer.Pull(ctx, transfer.ClientRemote{Client: c, Trees: treesOf(c, kind), ID: id, Version: version}, dir, transfer.PullOptions{
		Cache: a.cachePath(c.URL(), id, dir), DryRun: o.dry, Delete: o.delete, Progress: bar, Now: a.Now,
	})
	bar.done()
	if err != nil {
		return done, err
	}
	for _, link := range done.LeftOut[:min(len(done.LeftOut), maxLeftOut)] {
		a.note("The link %s is left out: it points out of the folder, to %s.", link.Path, link.Target)
	}
	if more := len(done.LeftOut) - maxLeftOut; more > 0 {
		a.note("And %s.", count(more, "more link"))
	}
	return done, nil
}

// cachePath returns the path of the cache file for transfers between a directory
// and a volume or artifact. It returns "" if the user has no cache directory or if
// tree, the ID of the volume or artifact, is empty.
func (a *app) cachePath(url, tree, dir string) string {
	base := a.getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		home := a.getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		base = filepath.Join(home, ".cache")
	}
	if tree == "" {
		return ""
	}
	name := sha256.Sum256([]byte(url + "\x00" + tree + "\x00" + dir))
	return filepath.Join(base, "stint", "transfer", hex.EncodeToString(name[:16]))
}
