package mcp

import (
	"context"
	"io"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/buildinfo"
)

const instructions = `Stint runs agents in sandboxes. Start one with run_agent, then call wait_run until "ended" is true; run_output returns what the agent wrote, and "result" of the run is its final message. A run stores its files as an artifact: name it with artifactName, and read it with list_artifact_files and read_artifact_file. To continue a conversation, pass the run's sessionId to run_agent.`

// Serve implements MCP on a pair of streams, one JSON message per line. It
// returns when in ends or ctx is cancelled. All tool calls use c.
func Serve(ctx context.Context, c *client.Client, in io.ReadCloser, out io.WriteCloser) error {
	ctx = context.WithValue(ctx, callerKey{}, &caller{c, ctx})
	return newServer().Run(ctx, &sdk.IOTransport{Reader: in, Writer: out})
}

// caller contains the client that tool calls use, and the context that cancels them.
type caller struct {
	client *client.Client
	until  context.Context // of the connection, or of the HTTP request
}

type callerKey struct{}

// newServer returns a server with all tools. The tools find the caller in the
// context of the connection or the HTTP request.
func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "stint", Title: "Stint", Version: buildinfo.Version()}, &sdk.ServerOptions{
		Instructions: instructions, Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	addRunTools(s)
	addFileTools(s)
	return s
}

// call is one tool call.
type call struct {
	*client.Client
	request *sdk.CallToolRequest
}

// add adds a tool that calls f. The result of f is the tool's structured result,
// and the error of f becomes a message for the model.
func add[In, Out any](s *sdk.Server, t *sdk.Tool, input *jsonschema.Schema, f func(context.Context, call, In) (Out, error)) {
	t.InputSchema, t.OutputSchema = input, schemaOf[Out](nil)
	sdk.AddTool(s, t, func(ctx context.Context, r *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
		caller := ctx.Value(callerKey{}).(*caller)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(caller.until, cancel)() // the SDK does not cancel calls when the connection ends
		out, err := f(ctx, call{caller.client, r}, in)
		return nil, out, err
	})
}
