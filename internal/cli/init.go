package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
)

// initOptions contains the flags of the command "init".
type initOptions struct {
	template, name string
	force          bool
}

func (a *app) init() *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a stint.yaml to start from",
		Long: `Write an agent to start from into DIR, which is the working directory by
default. Without --template this is only a stint.yaml for prompts that are shell
scripts. A template also has a README and the other files that its runs need:

  shell         prompts that are shell scripts
  python        a Python program
  assistant     the built-in agent, offline or with a model
  acp           a Python program that speaks the Agent Client Protocol
  claude-code   Claude Code, which reviews code
  codex         Codex, which makes tests pass

Files that exist are not replaced unless --force is given.`,
		Args: exactly("[DIR]"),
	}
	c.Flags().StringVarP(&o.template, "template", "t", "", "also write a README and examples: "+strings.Join(templateNames(), ", "))
	c.Flags().StringVar(&o.name, "name", "", "name of the agent (default: made from the folder's name)")
	c.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	_ = c.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(templateNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	c.RunE = a.do(func(_ context.Context, c *cobra.Command, args []string) error {
		if o.template != "" && !slices.Contains(templateNames(), o.template) {
			return usage(c, "there is no template '%s'; choose one of %s", o.template, strings.Join(templateNames(), ", "))
		}
		dir := a.Dir
		if len(args) == 1 {
			dir = a.path(args[0])
		}
		if o.name == "" {
			o.name = nameFrom(filepath.Base(dir))
		}
		if err := stint.CheckName("name", o.name); err != nil {
			return usage(c, "--name: %s", err.Message)
		}
		return a.writeStart(dir, o)
	})
	return c
}

// initResult is the JSON output of the command "init".
type initResult struct {
	File     string   `json:"file"`
	Name     string   `json:"name"`
	Template string   `json:"template,omitempty"`
	Files    []string `json:"files"` // relative to the folder of File
}

// writeStart writes the files of the template to dir and prints the commands to enter
// next. Without a template it writes only the definition.
func (a *app) writeStart(dir string, o initOptions) error {
	chosen, err := newTemplate(o.template, o.name)
	if err != nil {
		return err
	}
	if err := chosen.write(dir, o.force); err != nil {
		return err
	}
	path := filepath.Join(dir, definitionFile)
	result := initResult{path, o.name, o.template, chosen.paths()}
	if o.template == "" {
		return a.printResult(result, "Wrote %s. Next: stint agent push %s && stint run %s 'echo hello'", path, quote(path), o.name)
	}
	commands := chosen.commands()
	if near, err := filepath.Rel(a.Dir, dir); err == nil && filepath.IsLocal(near) {
		dir = near
	}
	if dir != "." {
		commands = append([]string{"cd " + quote(dir)}, commands...)
	}
	return a.printResult(result, "Wrote %s into %s. README.md explains them. Next:\n\n  %s\n",
		strings.Join(result.Files, ", "), dir, strings.Join(commands, "\n  "))
}

// write writes the files to dir. If a file exists and force is false, it writes
// nothing and returns an error.
func (t template) write(dir string, force bool) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	for _, f := range t {
		path := filepath.Join(dir, f.path)
		if _, err := os.Lstat(path); err == nil && !force {
			return existsError(path)
		}
	}
	for _, f := range t {
		if err := f.write(filepath.Join(dir, f.path), mode); err != nil {
			return err
		}
	}
	return nil
}

func existsError(path string) error {
	return fmt.Errorf("%s exists already: replace it with --force, or choose another folder", path)
}

func (f templateFile) write(path string, mode int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	out, err := os.OpenFile(path, mode, 0o666) //nolint:gosec // a source file like others; the umask applies
	if errors.Is(err, fs.ErrExist) {
		return existsError(path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = out.WriteString(f.content)
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
