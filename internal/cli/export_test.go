package cli

import "github.com/spf13/cobra"

// Root returns the command stint with all its subcommands.
func Root(env Env) *cobra.Command {
	a := &app{Env: env}
	return a.root()
}
