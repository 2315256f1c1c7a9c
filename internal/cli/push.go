package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/internal/localdir"
)

// pushOptions are what a push is asked for.
type pushOptions struct {
	client.PushOptions
	dry bool
}

func (t volumeCommands) push() *cobra.Command {
	var o pushOptions
	c := &cobra.Command{
		Use:   "push NAME DIR",
		Short: fmt.Sprintf("Store a folder as the new version of %s", articled(t.kind)),
		Long: fmt.Sprintf(`Push stores the files below DIR as the new version of %s, which is made when
it is missing. When they equal the current version nothing changes.

Only those parts of files are sent that the server lacks, and files that have
not changed since the last push are not read. A push that was interrupted can be
repeated and goes on where it stopped.

What the patterns of a %s file name is left out; they are written as
in .gitignore and rule the folder that the file stands in.`, articled(t.kind), localdir.IgnoreFile),
		Args: exactly("NAME", "DIR"),
	}
	c.Flags().StringVarP(&o.Message, "message", "m", "", "what this version is about")
	c.Flags().StringVar(&o.IfMatch, "if-match", "", "store only if this version, by ID or number, is the current one")
	c.Flags().BoolVarP(&o.dry, "dry-run", "n", false, "tell what would be sent, and send nothing")
	c.RunE = t.a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		if stint.CheckName("", args[1]) == nil && isDir(t.a.path(args[0])) && !isDir(t.a.path(args[1])) {
			return usage(c, "there is no folder '%s'; did you mean: %s %s %s", args[1], c.CommandPath(), args[1], quote(args[0]))
		}
		return t.pushFolder(ctx, args[0], t.a.path(args[1]), o)
	})
	return c
}

// articled names the kind with its article.
func articled(k stint.FileSetKind) string {
	if k == stint.Artifacts {
		return "an artifact"
	}
	return "a " + string(k)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// pushedTree tells what a push did.
type pushedTree struct {
	stint.FileSetVersion
	Sent    *transfer.Count `json:"sent,omitempty"` // nil for an archive
	Name    string          `json:"name"`
	Changed bool            `json:"changed"`
}

func (t volumeCommands) pushFolder(ctx context.Context, name, dir string, o pushOptions) error {
	if !isDir(dir) { // before anything is made for it
		_, err := localdir.Open(ctx, dir)
		return err
	}
	near, err := t.a.client()
	if err != nil {
		return err
	}
	trees := treesOf(near, t.kind)
	tree, err := t.target(ctx, trees, name, o.dry)
	if err != nil {
		return err
	}
	if o.IfMatch, err = t.expected(ctx, trees, tree, o); err != nil {
		return err
	}
	c, err := t.a.follower()
	if err != nil {
		return err
	}
	done, err := t.send(ctx, c, tree, dir, o)
	switch {
	case errors.Is(err, transfer.ErrUnsupported) && !o.dry:
		return t.pushArchive(ctx, trees, tree, dir, &o.PushOptions)
	case err != nil:
		return err
	case o.dry:
		return t.tellPlan(tree, done)
	}
	return t.tellPushed(tree, pushedTree{*done.Version, &done.Sent, tree.Name, done.Added})
}

// target finds or makes what to push to. A dry run makes nothing.
func (t volumeCommands) target(ctx context.Context, trees *client.FileSets, name string, dry bool) (*stint.FileSet, error) {
	tree, err := trees.Find(ctx, name)
	if !client.IsCode(err, stint.CodeResourceNotFound) || stint.IsID(t.kind.Prefix(), name) {
		return tree, err
	}
	if dry {
		if e := stint.CheckName("name", name); e != nil {
			return nil, errors.New(e.Message)
		}
		return &stint.FileSet{Name: name}, nil
	}
	return trees.Create(ctx, name)
}

// expected is the ID of the version that --if-match names in one of its forms:
// the server compares IDs.
func (t volumeCommands) expected(ctx context.Context, trees *client.FileSets, tree *stint.FileSet, o pushOptions) (string, error) {
	form := pinned(tree, o.IfMatch)
	if form == "" || o.dry || strings.Contains(form, "_") {
		return form, nil
	}
	v, err := trees.Version(ctx, tree.ID, form)
	if err != nil {
		return "", err
	}
	return v.ID, nil
}

func (t volumeCommands) send(ctx context.Context, c *client.Client, tree *stint.FileSet, dir string, o pushOptions) (transfer.PushResult, error) {
	bar := t.a.progress("pushed")
	defer bar.done()
	remote := transfer.ClientRemote{Client: c, Trees: treesOf(c, t.kind), ID: tree.ID, Push: &o.PushOptions}
	return transfer.Push(ctx, remote, dir, transfer.PushOptions{
		Cache: t.a.cachePath(c.URL(), tree.ID, dir), DryRun: o.dry, Progress: bar, Now: t.a.Now,
		Listed: func(_ transfer.Count, skipped []string) { t.tellSkipped(skipped) },
	})
}

func (t volumeCommands) tellSkipped(skipped []string) {
	for _, name := range skipped {
		t.a.note("%s is left out: it is no file, folder or link.", name)
	}
}

func (t volumeCommands) tellPushed(tree *stint.FileSet, p pushedTree) error {
	if t.a.json {
		return t.a.printJSON(p)
	}
	if !p.Changed {
		t.a.note("The %s %s is unchanged, at %s.", t.kind, tree.Name, p.ID)
		return nil
	}
	t.a.note("Stored %s@%s: %s, %s.", tree.Name, p.ID, filesText(p.FileCount), bytesText(p.Size))
	return nil
}

func (t volumeCommands) tellPlan(tree *stint.FileSet, p transfer.PushResult) error {
	if t.a.json {
		return t.a.printJSON(map[string]any{"name": tree.Name, "files": p.All.Files, "size": p.All.Bytes, "send": p.Sent})
	}
	t.a.note("Of %s, %s, parts of %s would be sent: %s before compression.",
		filesText(p.All.Files), bytesText(p.All.Bytes), filesText(p.Sent.Files), bytesText(p.Sent.Bytes))
	return nil
}

// pushArchive packs and uploads at once, through a pipe, for servers that know
// no other way.
func (t volumeCommands) pushArchive(ctx context.Context, trees *client.FileSets, tree *stint.FileSet, dir string, o *client.PushOptions) error {
	files, err := localdir.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }() // only read from
	bar := t.a.progress("pushed")
	bar.Expect(files.Size)
	out, in := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		in.CloseWithError(files.Pack(ctx, in, func(n int) { bar.Done(int64(n)) })) // nil ends the pipe with EOF
	}()
	v, changed, err := trees.Push(ctx, tree.ID, out, o)
	_ = out.CloseWithError(errors.New("the upload has ended")) // wakes the packer; never fails
	<-packed
	bar.done()
	if err != nil {
		return err
	}
	return t.tellPushed(tree, pushedTree{*v, nil, tree.Name, changed})
}

// pullOptions are what a pull is asked for.
type pullOptions struct{ dry, delete bool }

func (t volumeCommands) pull() *cobra.Command {
	var o pullOptions
	c := &cobra.Command{
		Use:   "pull NAME[@VERSION] DIR",
		Short: "Write the files of a version into a folder",
		Long: fmt.Sprintf(`Pull writes the files of a version into DIR, which is made when it is missing.
Files of the same name are replaced, others stay unless --delete is given.
Nothing is written outside of DIR. VERSION is an ID or a number, the current one
where it is left out.

Only what DIR lacks is fetched. A pull that was interrupted can be repeated and
goes on where it stopped. --delete spares %[1]s files in DIR and what they
name.`, localdir.IgnoreFile),
		Args: exactly("NAME", "DIR"),
	}
	c.Flags().BoolVar(&o.delete, "delete", false, "remove what the version does not hold")
	c.Flags().BoolVarP(&o.dry, "dry-run", "n", false, "tell what would be done, and change nothing")
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
		return t.tellPulled(tree, version, dir, done, o)
	})
	return c
}

// pulledTree tells what a pull did.
type pulledTree struct {
	Dir     string         `json:"dir"`
	Files   int64          `json:"files"`
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Size    int64          `json:"size"`
	Version string         `json:"version"`
	Written transfer.Count `json:"written"`
	Fetched int64          `json:"fetched"` // bytes of files that were not there in any form
	Deleted int64          `json:"deleted"` // entries
}

func (t volumeCommands) tellPulled(tree *stint.FileSet, version, dir string, p transfer.PullResult, o pullOptions) error {
	if t.a.json {
		return t.a.printJSON(pulledTree{dir, p.All.Files, tree.ID, tree.Name, p.All.Bytes, version, p.Written, p.Fetched, p.Deleted})
	}
	verb, removed := "Wrote", "Removed"
	if o.dry {
		verb, removed = "Would write", "Would remove"
	}
	t.a.note("%s %s, %s, into %s.", verb, filesText(p.Written.Files), bytesText(p.Written.Bytes), dir)
	if p.Deleted > 0 {
		t.a.note("%s %d entries that the version does not hold.", removed, p.Deleted)
	}
	return nil
}

// fetch makes a folder hold what a version holds.
func (a *app) fetch(ctx context.Context, c *client.Client, kind stint.FileSetKind, id, version, dir string, o pullOptions) (transfer.PullResult, error) {
	bar := a.progress("pulled")
	defer bar.done()
	return transfer.Pull(ctx, transfer.ClientRemote{Client: c, Trees: treesOf(c, kind), ID: id, Version: version}, dir, transfer.PullOptions{
		Cache: a.cachePath(c.URL(), id, dir), DryRun: o.dry, Delete: o.delete, Progress: bar, Now: a.Now,
	})
}

// cachePath is where is remembered what a folder held when it was last
// exchanged with a tree; empty where there is no place for it.
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
