package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli"
)

// TestEveryCommandHasExamples checks that each command without subcommands has two
// examples or more in internal/cli/examples.go, and that each is a valid command line.
func TestEveryCommandHasExamples(t *testing.T) {
	t.Parallel()
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			visit(child)
		}
		if c.HasSubCommands() || !c.IsAvailableCommand() && c.Name() != "help" {
			return
		}
		path, examples := c.CommandPath(), strings.Split(strings.TrimSpace(c.Example), "\n")
		if len(examples) < 2 {
			t.Errorf("'%s' has fewer than two examples; add them to examples.go", path)
		}
		if !strings.Contains(examples[0], path) {
			t.Errorf("the first example of '%s' is '%s'", path, examples[0])
		}
		for _, example := range examples {
			checkExample(t, path, example)
		}
	}
	visit(cli.Root(cli.Env{}))
}

// checkExample checks each command of this program in a line for a shell: the command and
// its flags exist, and the number of arguments is right.
func checkExample(t *testing.T, path, example string) {
	t.Helper()
	found := false
	for _, words := range shellCommands(example) {
		at := slices.Index(words, "stint")
		if at < 0 || words[0] == "claude" {
			continue
		}
		args := words[at+1:]
		if at > 0 && words[at-1] == "xargs" {
			args = append(args, "argument")
		}
		c, rest, err := cli.Root(cli.Env{}).Find(args)
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err == nil {
			err = c.ValidateArgs(c.Flags().Args())
		}
		if err != nil {
			t.Errorf("'%s' in an example of '%s': %v", example, path, err)
		}
		found = found || c.CommandPath() == path
	}
	if !found && !strings.HasSuffix(path, "switch") && path != "stint mcp" {
		t.Errorf("'%s' in an example of '%s' does not use this command", example, path)
	}
}

// shellCommands splits a line for a shell into the words of its commands: at pipes,
// redirections, and the ends of command substitutions. Words in single quotes are not
// split.
func shellCommands(line string) [][]string {
	commands, word, quote, started := [][]string{nil}, "", rune(0), false
	endWord := func() {
		if last := len(commands) - 1; started {
			commands[last], word, started = append(commands[last], word), "", false
		}
	}
	for i, r := range line {
		switch {
		case quote == '\'' && r != '\'':
			word += string(r)
		case r == '\'':
			quote, started = map[bool]rune{true: 0, false: '\''}[quote == '\''], true
		case r == ' ' || r == '"':
			endWord()
		case strings.ContainsRune("|<>()", r):
			endWord()
			commands = append(commands, nil)
		case r == '$' && strings.HasPrefix(line[i:], "$("):
		default:
			word, started = word+string(r), true
		}
	}
	endWord()
	return slices.DeleteFunc(commands, func(words []string) bool { return len(words) == 0 })
}
