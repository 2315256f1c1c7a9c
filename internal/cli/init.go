package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
)

//go:embed starter.yaml
var starter string

func (a *app) init() *cobra.Command {
	var name string
	var force bool
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a stint.yaml to start from",
		Args:  exactly("[DIR]"),
	}
	c.Flags().StringVar(&name, "name", "", "name of the agent (default: made from the folder's name)")
	c.Flags().BoolVar(&force, "force", false, "replace a stint.yaml that exists")
	c.RunE = a.do(func(_ context.Context, c *cobra.Command, args []string) error {
		dir := a.Dir
		if len(args) == 1 {
			dir = a.path(args[0])
		}
		if name == "" {
			name = nameFrom(filepath.Base(dir))
		}
		if err := stint.CheckName("name", name); err != nil {
			return usage(c, "--name: %s", err.Message)
		}
		path := filepath.Join(dir, definitionFile)
		if err := writeStarter(path, name, force); err != nil {
			return err
		}
		return a.printResult(map[string]string{"file": path, "name": name},
			"Wrote %s. Next: stint agent push %s && stint run %s 'echo hello'", path, quote(path), name)
	})
	return c
}

func writeStarter(path, name string, force bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	out, err := os.OpenFile(path, mode, 0o666) //nolint:gosec // a source file like others; the umask applies
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: replace it with --force", path)
	}
	if err != nil {
		return fmt.Errorf("write the definition: %w", err)
	}
	_, err = out.WriteString(strings.Replace(starter, "NAME", name, 1))
	return errors.Join(err, out.Close())
}

// nameFrom converts text to a valid name of at most 64 lower-case ASCII letters,
// digits, and hyphens. If the text contains no ASCII letters or digits, nameFrom
// returns "agent".
func nameFrom(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 {
			b.WriteByte('-')
		}
	}
	name := b.String()
	name = strings.Trim(name[:min(len(name), 64)], "-")
	if name == "" {
		return "agent"
	}
	return name
}
