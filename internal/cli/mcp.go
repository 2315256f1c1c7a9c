package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/mcp"
)

func (a *app) mcp() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Offer this server's agents as tools to an MCP client",
		Long: `Serve the Model Context Protocol on standard input and output, with tools that
list and run agents, wait for runs, and read their output and files. The token is
the stored one, or the one in STINT_TOKEN. MCP clients start this command
themselves; register it there:

  Claude Code     claude mcp add stint -- stint mcp
  Codex           codex mcp add stint -- stint mcp
  others          {"mcpServers": {"stint": {"command": "stint", "args": ["mcp"]}}}

Remote clients do not need this command: they use the server's URL/mcp with the
header 'Authorization: Bearer TOKEN'.`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			c, err := a.follower()
			if err != nil {
				return err
			}
			return mcp.Serve(ctx, c, io.NopCloser(a.Stdin), keepOpen{a.Stdout})
		}),
	}
}

// keepOpen is a writer with a Close that does nothing.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
