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
		Short: "Give the agents of this server to another program as tools, by MCP",
		Long: `Mcp speaks the Model Context Protocol on standard input and output, so that a
program that knows it can list and run agents, wait for runs, read what they
wrote and the files that they made. It acts with the token that you are logged
in with, or with that of STINT_TOKEN. The program starts it; register it there:

  Claude Code     claude mcp add stint -- stint mcp
  Codex           codex mcp add stint -- stint mcp
  others          {"mcpServers": {"stint": {"command": "stint", "args": ["mcp"]}}}

A program elsewhere needs no command: it asks URL/mcp of the server, with the
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

// keepOpen is a stream that is not ours to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
