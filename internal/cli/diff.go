package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func (t volumeCommands) diff() *cobra.Command {
	var text, patch bool
	c := &cobra.Command{
		Use: "diff NAME [FROM [TO [PATH]]]", Short: "Show the differences between two versions",
		Long: `List the files that were added (A), removed (D), changed (M) or renamed (R)
between two versions, by ID or number. The default of TO is the latest version,
and the default of FROM is the version that TO was made from. With --text or a
PATH it shows the lines that differ, as 'diff --unified' does.

With --patch it writes all changes as a patch for git, with new, deleted and
renamed files, modes, links and binary files.`,
		Args: exactly("NAME", "[FROM]", "[TO]", "[PATH]"),
	}
	c.Flags().BoolVarP(&text, "text", "p", false, "show the lines that differ")
	c.Flags().BoolVar(&patch, "patch", false, "write a patch for 'git apply'")
	c.RunE = t.a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		if patch && text {
			return usage(c, "--patch and --text exclude each other")
		}
		if patch && t.a.json {
			return usage(c, "--patch writes a patch, not JSON. Use --text with --json.")
		}
		d, err := t.compare(ctx, args)
		if err != nil {
			return err
		}
		path := ""
		if len(args) == 4 {
			path = strings.Trim(args[3], "/")
		}
		switch {
		case patch:
			return d.patch(ctx, path)
		case path != "":
			return d.file(ctx, path)
		}
		return d.changes(ctx, text)
	})
	return c
}

// compare returns the comparison of the versions that the arguments name.
func (t volumeCommands) compare(ctx context.Context, args []string) (*comparison, error) {
	d := &comparison{a: t.a, to: "latest"}
	if len(args) > 2 {
		d.to = args[2]
	}
	trees, tree, err := t.find(ctx, args[0])
	if err != nil {
		return nil, err
	}
	d.trees, d.id, d.to = trees, tree.ID, pinned(tree, d.to)
	if len(args) > 1 {
		d.from = pinned(tree, args[1])
		return d, nil
	}
	v, err := trees.Version(ctx, tree.ID, d.to)
	if err != nil {
		return nil, err
	}
	if v.ParentVersionID == nil {
		return nil, fmt.Errorf("%s of %s was not made from another version. Name the version to compare with", shortVersion(v.ID), tree.Name)
	}
	d.to, d.from = v.ID, *v.ParentVersionID
	return d, nil
}

// comparison prints the differences between two versions.
type comparison struct {
	a        *app
	trees    *client.FileSets
	id       string
	from, to string
}

func (d *comparison) changes(ctx context.Context, text bool) error {
	for c, err := range d.trees.Diff(ctx, d.id, d.from, d.to) {
		if err == nil {
			err = d.change(ctx, c, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *comparison) change(ctx context.Context, c stint.FileChange, text bool) error {
	switch {
	case text && d.a.json:
		return d.withLines(ctx, c)
	case !text || !hasLines(c):
		return d.a.printChange(c)
	}
	err := d.file(ctx, c.Path)
	if client.IsCode(err, stint.CodeInvalidParameter) { // the file is too large
		return d.a.printChange(c)
	}
	return err
}

// hasLines reports whether a change has a diff of lines. Renamed files, folders, and
// changes of only the mode do not.
func hasLines(c stint.FileChange) bool {
	switch {
	case c.Change == stint.FileRenamed, c.From != nil && c.From.Kind == "dir", c.To != nil && c.To.Kind == "dir":
		return false
	case c.From != nil && c.To != nil:
		return c.From.SHA256 != c.To.SHA256 || c.From.Target != c.To.Target
	}
	return true
}

// changeWithLines is a change in the output of --json --text.
type changeWithLines struct {
	stint.FileChange
	Diff string `json:"diff,omitempty"`
}

func (d *comparison) withLines(ctx context.Context, c stint.FileChange) error {
	out := changeWithLines{FileChange: c}
	if hasLines(c) {
		lines, err := d.lines(ctx, c.Path)
		if err != nil && !client.IsCode(err, stint.CodeInvalidParameter) {
			return err
		}
		out.Diff = lines
	}
	return d.a.printJSON(out)
}

func (d *comparison) lines(ctx context.Context, path string) (string, error) {
	in, err := d.trees.DiffFile(ctx, d.id, d.from, d.to, path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	b, err := io.ReadAll(in)
	if err != nil {
		return "", fmt.Errorf("read the differences in %s: %w", path, err)
	}
	return string(b), nil
}

// file prints the changed lines of one file.
func (d *comparison) file(ctx context.Context, path string) error {
	if d.a.json {
		lines, err := d.lines(ctx, path)
		if err != nil {
			return err
		}
		return d.a.printJSON(map[string]string{"path": path, "diff": lines})
	}
	in, err := d.trees.DiffFile(ctx, d.id, d.from, d.to, path)
	if err != nil {
		return err
	}
	defer in.Close()
	if d.a.IsTerminal(stdout) {
		err = d.a.showLines(in)
	} else {
		_, err = io.Copy(d.a.Stdout, in)
	}
	if err != nil {
		return fmt.Errorf("read the differences in %s: %w", path, err)
	}
	return nil
}

// showLines prints a unified diff on a terminal. It replaces control characters
// except tabs by spaces.
func (a *app) showLines(in io.Reader) error {
	for r := bufio.NewReader(in); ; {
		line, err := r.ReadString('\n')
		if line != "" {
			line = plainLine(strings.TrimSuffix(line, "\n"))
			if code := lineColour(line); code != "" {
				line = a.colour(stdout, code, line)
			}
			fmt.Fprintln(a.Stdout, line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// plainLine replaces control characters except tabs by spaces.
func plainLine(s string) string {
	parts := strings.Split(s, "\t")
	for i := range parts {
		parts[i] = plain(parts[i])
	}
	return strings.Join(parts, "\t")
}

func lineColour(line string) string {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return faint
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return ""
}

func (a *app) printChange(c stint.FileChange) error {
	if a.json {
		return a.printJSON(c)
	}
	letter, code, path := "M", yellow, plain(c.Path)
	switch c.Change {
	case stint.FileAdded:
		letter, code = "A", green
	case stint.FileRemoved:
		letter, code = "D", red
	case stint.FileRenamed:
		letter = "R"
		if c.From != nil {
			path = plain(c.From.Path) + " -> " + path
		}
	}
	_, err := fmt.Fprintln(a.Stdout, a.colour(stdout, code, letter+" "+path))
	return err
}
