package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/internal/localdir"
)

// pushOptions contains the flags of the command "push".
type pushOptions struct {
	client.PushOptions
	git string // URL@REF of a repository; empty for a folder
	dry bool
}

func (t volumeCommands) push() *cobra.Command {
	var o pushOptions
	c := &cobra.Command{
		Use:   "push NAME {DIR | --git URL@REF}",
		Short: fmt.Sprintf("Store a folder as the new version of %s", withArticle(t.kind)),
		Long: fmt.Sprintf(`Store the files in DIR as a new version of %s, which is created if it
does not exist. If the files equal the current version, nothing changes.

Only parts of files that the server does not have are sent, and files that have
not changed since the last push are not read. An interrupted push can be
repeated and continues where it stopped.

Files that match a pattern in a %s file are left out. The patterns are
written as in .gitignore and apply to the folder of that file.

With --git the files are those of a commit. The git program of this machine
fetches it, with your access to the repository and without the history. REF is a
branch, a tag, or all digits of a commit; the default is the default branch.
Submodules are not fetched.`, withArticle(t.kind), localdir.IgnoreFile),
		Args: exactly("NAME", "[DIR]"),
	}
	c.Flags().StringVar(&o.git, "git", "", "store the files of URL@REF, a branch, tag, or commit of a git repository")
	c.Flags().StringVarP(&o.Message, "message", "m", "", "description of this version")
	c.Flags().StringVar(&o.IfMatch, "if-match", "", "store only if this version, by ID or number, is the current one")
	c.Flags().BoolVarP(&o.dry, "dry-run", "n", false, "print what would be sent, and send nothing")
	c.RunE = t.a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		switch {
		case o.git != "" && len(args) == 2:
			return usage(c, "give either a folder or --git, not both")
		case o.git != "":
			source, err := parseGitSource(o.git)
			if err != nil {
				return usage(c, "--git: %s", err)
			}
			return t.pushGit(ctx, args[0], source, o)
		case len(args) == 1:
			return usage(c, "DIR is missing; to push a repository, use --git")
		}
		if stint.CheckName("", args[1]) == nil && isDir(t.a.path(args[0])) && !isDir(t.a.path(args[1])) {
			return usage(c, "there is no folder '%s'; did you mean: %s %s %s", args[1], c.CommandPath(), args[1], quote(args[0]))
		}
		return t.pushFolder(ctx, args[0], t.a.path(args[1]), o)
	})
	return c
}

// withArticle returns the kind with the indefinite article.
func withArticle(k stint.FileSetKind) string {
	if k == stint.Artifacts {
		return "an artifact"
	}
	return "a " + string(k)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// pushGit fetches a commit into a temporary folder and stores that. The version's
// message names the repository and the commit.
func (t volumeCommands) pushGit(ctx context.Context, name string, source gitSource, o pushOptions) (err error) {
	dir, err := os.MkdirTemp(t.a.getenv("TMPDIR"), "stint-git-")
	if err != nil {
		return fmt.Errorf("create a temporary folder (set TMPDIR to another one): %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	checkout, err := t.a.checkOut(ctx, source, dir)
	if err != nil {
		return err
	}
	origin := source.shown() + "@" + checkout.commit
	if source.ref != checkout.commit {
		origin = fmt.Sprintf("%s@%s, commit %s", source.shown(), source.ref, checkout.commit)
	}
	if o.Message == "" {
		o.Message = origin
	} else {
		o.Message += " (" + origin + ")"
	}
	return t.pushFolder(ctx, name, checkout.dir, o)
}

// pushResult is the JSON output of the command "push".
type pushResult struct {
	stint.FileSetVersion
	Sent    *transfer.Count `json:"sent,omitempty"` // nil for an archive
	Name    string          `json:"name"`
	Changed bool            `json:"changed"`
}

func (t volumeCommands) pushFolder(ctx context.Context, name, dir string, o pushOptions) error {
	if !isDir(dir) { // check before anything is created
		_, err := localdir.Open(ctx, dir)
		return err
	}
	near, err := t.a.client()
	if err != nil {
		return err
	}
	trees := treesOf(near, t.kind)
	tree, created, err := t.target(ctx, trees, name, o.dry)
	if err != nil {
		return err
	}
	if err = t.pushTo(ctx, trees, tree, dir, o); err != nil && created {
		err = errors.Join(err, t.discard(ctx, trees, tree))
	}
	return err
}

// discard deletes a volume or artifact that a failed push created, unless another push
// has stored a version in it. The push may have been interrupted; discard is not.
func (t volumeCommands) discard(ctx context.Context, trees *client.FileSets, tree *stint.FileSet) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	now, err := trees.Get(ctx, tree.ID)
	if err == nil && now.CurrentVersionID == nil {
		err = trees.Delete(ctx, tree.ID)
	}
	if err != nil {
		return fmt.Errorf("the new %s %s stays without a version; remove it with 'stint %s rm %s': %w", t.kind, tree.Name, t.kind, tree.Name, err)
	}
	return nil
}

// pushTo stores the folder as a new version of a volume or artifact.
func (t volumeCommands) pushTo(ctx context.Context, trees *client.FileSets, tree *stint.FileSet, dir string, o pushOptions) (err error) {
	if o.IfMatch, err = t.expected(ctx, trees, tree, o.IfMatch); err != nil {
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
		return t.printPlan(tree, done)
	}
	return t.printPushed(tree, pushResult{*done.Version, &done.Sent, tree.Name, done.Added})
}

// target returns the volume or artifact with the given name or ID. If there is none
// with the name, target creates it, and created is true. In a dry run it returns a
// FileSet with only the name instead.
func (t volumeCommands) target(ctx context.Context, trees *client.FileSets, name string, dry bool) (tree *stint.FileSet, created bool, err error) {
	if name == lastRef || strings.HasPrefix(name, t.kind.Prefix()) {
		_, tree, err = t.find(ctx, name)
		return tree, false, err
	}
	tree, err = trees.Find(ctx, name)
	if !client.IsCode(err, stint.CodeResourceNotFound) {
		return tree, false, err
	}
	if dry {
		if e := stint.CheckName("name", name); e != nil {
			return nil, false, errors.New(e.Message)
		}
		return &stint.FileSet{Name: name}, false, nil
	}
	tree, err = trees.Create(ctx, name)
	return tree, err == nil, err
}

// expected returns the ID of the version in --if-match, which may be a number, or ""
// without this flag. The server compares only IDs. If the volume or artifact does not
// exist, as in a dry run, expected returns a number unchanged.
func (t volumeCommands) expected(ctx context.Context, trees *client.FileSets, tree *stint.FileSet, ifMatch string) (string, error) {
	form := pinned(tree, ifMatch)
	if form == "" || tree.ID == "" || strings.Contains(form, "_") {
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
	cache := t.a.cachePath(c.URL(), tree.ID, dir)
	if o.git != "" {
		cache = "" // the folder is temporary
	}
	remote := transfer.ClientRemote{Client: c, Trees: treesOf(c, t.kind), ID: tree.ID, Push: &o.PushOptions}
	return transfer.Push(ctx, remote, dir, transfer.PushOptions{
		Cache: cache, DryRun: o.dry, Progress: bar, Now: t.a.Now,
		Listed: func(_ transfer.Count, skipped []string) { t.noteSkipped(skipped) },
	})
}

func (t volumeCommands) noteSkipped(skipped []string) {
	for _, name := range skipped {
		t.a.note("%s is left out: it is not a file, folder, or link.", name)
	}
}

func (t volumeCommands) printPushed(tree *stint.FileSet, p pushResult) error {
	if !p.Changed {
		return t.a.printResult(p, "The %s %s is unchanged, at %s.", t.kind, tree.Name, p.ID)
	}
	sent := ""
	switch {
	case p.Sent == nil:
	case p.Sent.Bytes == 0:
		sent = "; all content was stored already"
	default:
		sent = fmt.Sprintf("; sent %s for %s", bytesText(p.Sent.Bytes), count(p.Sent.Files, "changed file"))
	}
	return t.a.printResult(p, "Stored %s@%s: %s, %s%s.", tree.Name, p.ID, count(p.FileCount, "file"), bytesText(p.Size), sent)
}

func (t volumeCommands) printPlan(tree *stint.FileSet, p transfer.PushResult) error {
	return t.a.printResult(map[string]any{"name": tree.Name, "files": p.All.Files, "size": p.All.Bytes, "send": p.Sent},
		"Of %s, %s, parts of %s would be sent: %s before compression.",
		count(p.All.Files, "file"), bytesText(p.All.Bytes), count(p.Sent.Files, "file"), bytesText(p.Sent.Bytes))
}

// pushArchive packs and uploads an archive through a pipe, for servers without
// chunk uploads.
func (t volumeCommands) pushArchive(ctx context.Context, trees *client.FileSets, tree *stint.FileSet, dir string, o *client.PushOptions) error {
	files, err := localdir.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }() // opened for reading
	bar := t.a.progress("pushed")
	bar.Expect(files.Size)
	out, in := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		in.CloseWithError(files.Pack(ctx, in, func(n int) { bar.Done(int64(n)) })) // nil ends the pipe with EOF
	}()
	v, changed, err := trees.Push(ctx, tree.ID, out, o)
	_ = out.CloseWithError(errors.New("the upload has ended")) // unblocks the packer; never fails
	<-packed
	bar.done()
	if err != nil {
		return err
	}
	return t.printPushed(tree, pushResult{*v, nil, tree.Name, changed})
}
