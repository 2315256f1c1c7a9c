package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/config"
)

// The limits of a completion: the time, the number of newest runs, sessions, and versions,
// and the number of objects with names.
const (
	completionLimit = time.Second
	maxNewest       = 50
	maxNamed        = 1000
)

// suggestion returns the candidates for a word that the user has begun. args are the
// arguments before the word. A candidate can have a description, after a tab.
type suggestion func(ctx context.Context, c *client.Client, args []string, typed string) []string

// complete defines the completion of the arguments and flags of a command and of its
// subcommands. The words of the usage line decide which objects complete an argument, and
// the names of the flags which objects or values complete a flag.
func (a *app) complete(c *cobra.Command) {
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = a.arguments(c)
	}
	flags := func(f *pflag.Flag) {
		if _, exists := c.GetFlagCompletionFunc(f.Name); !exists && f.Value.Type() != "bool" {
			_ = c.RegisterFlagCompletionFunc(f.Name, a.flagValues(f)) // the flag exists
		}
	}
	c.LocalNonPersistentFlags().VisitAll(flags)
	c.PersistentFlags().VisitAll(flags)
	for _, child := range c.Commands() {
		a.complete(child)
	}
}

// arguments returns the completion of a command's arguments.
func (a *app) arguments(c *cobra.Command) cobra.CompletionFunc {
	words := strings.Fields(c.Use)[1:]
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		i := len(args)
		if n := len(words); i >= n && n > 0 && strings.HasSuffix(words[n-1], "...") {
			i = n - 1
		}
		if i >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.argument(c, words[i])(c, args, typed)
	}
}

// argument returns the completion of an argument, given its word in the usage line.
func (a *app) argument(c *cobra.Command, word string) cobra.CompletionFunc {
	parent := ""
	if c.HasParent() {
		parent = c.Parent().Name()
	}
	kind := stint.FileSetKind(parent)
	switch word = strings.Map(withoutBrackets, word); word {
	case "DIR":
		return directories
	case "FILE":
		return files
	case "CONTEXT":
		return a.suggestContexts
	case "RUN":
		return a.remote(suggestRuns)
	case "SESSION":
		return a.remote(suggestSessions)
	case "CHECKPOINT":
		return a.remote(suggestRuns) // a run stands for its checkpoint
	case "TOKEN":
		return a.remote(suggestTokens)
	case "AGENT", "AGENT@VERSION":
		return a.remote(suggestAgents(strings.Contains(word, "@")))
	case "FROM", "TO":
		return a.remote(suggestVersions(kind))
	case "PATH":
		return a.remote(suggestPaths(kind, c.Name() == "diff"))
	case "NAME", "NAME@VERSION":
		switch {
		case c.Name() == "create":
		case parent == "secret":
			return a.remote(suggestSecrets)
		case kind == stint.Volumes || kind == stint.Artifacts:
			return a.remote(suggestTrees(kind, strings.Contains(word, "@"), "@"))
		}
	}
	return cobra.NoFileCompletions
}

func withoutBrackets(r rune) rune {
	if strings.ContainsRune("[]{}.", r) {
		return -1
	}
	return r
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// choices contains the values of flags with fixed values.
var choices = map[string][]string{
	"status":          {"pending", "running", "completed", "failed", "timeout", "cancelled"},
	"type":            {"all", "agent", "system", "network"},
	"scope":           stint.Scopes,
	"isolation":       config.Isolations,
	"encrypt-storage": {config.EncryptOff, config.EncryptOn, config.EncryptStrict},
	"log-level":       {"debug", "info", "warn", "error"},
	"log-format":      {"text", "json"},
	"model-type":      modelTypes,
	"priority":        {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
}

// flagValues returns the completion of a flag's value.
func (a *app) flagValues(f *pflag.Flag) cobra.CompletionFunc {
	inner := a.flagValue(f)
	if _, ok := f.Value.(pflag.SliceValue); !ok || f.Value.Type() == "stringArray" {
		return inner
	}
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1] // the values before the one that is completed
		found, directive := inner(c, args, typed[len(before):])
		return withPrefix(before, found), directive
	}
}

func (a *app) flagValue(f *pflag.Flag) cobra.CompletionFunc {
	if values, ok := choices[f.Name]; ok {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	switch f.Name {
	case "context":
		return a.suggestContexts
	case "agent", "agents":
		return a.remote(suggestAgents(false))
	case "session":
		return a.remote(suggestSessions)
	case "agent-version":
		return a.remote(suggestAgentVersions)
	case "artifact":
		return a.remote(suggestTrees(stint.Artifacts, true, "@"))
	case "volume":
		return a.remote(suggestTrees(stint.Volumes, true, "="))
	case "if-match":
		return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return a.remote(suggestVersions(stint.FileSetKind(c.Parent().Name())))(c, args, typed)
		}
	case "data", "pull":
		return directories
	}
	if setting, ok := f.Value.(*settingFlag); ok && setting.kind == "FILE" {
		return files
	}
	return cobra.NoFileCompletions
}

// remote returns a completion that asks the server. Errors, and a server that does not
// answer in time, result in no candidates.
func (a *app) remote(suggest suggestion) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionLimit)
		defer cancel()
		server, err := a.account()
		if err != nil || server.Token == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		connection, err := a.clientFor(server.URL, server.Token, 1)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := suggest(ctx, connection, args, typed)
		found = slices.DeleteFunc(found, func(word string) bool { return !strings.HasPrefix(word, typed) })
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func (a *app) suggestContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	stored, err := a.readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range stored.names() {
		out = append(out, candidate(name, stored.Logins[name].URL))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// bashWords lets bash complete words that contain an @, such as NAME@VERSION.
const bashWords = `
COMP_WORDBREAKS=${COMP_WORDBREAKS//@/}
`

// completeBash adds bashWords to the output of 'stint completion bash'.
func completeBash(root *cobra.Command, out io.Writer) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.RunE == nil {
		return
	}
	script := bash.RunE
	bash.RunE = func(c *cobra.Command, args []string) error {
		if err := script(c, args); err != nil {
			return err
		}
		_, err := io.WriteString(out, bashWords)
		return err
	}
}
