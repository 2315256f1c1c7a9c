package frameworktest

import (
	"encoding/json"
	"os"

	"github.com/stint-dev/stint/internal/framework"
)

// mcpVariable is the environment variable that makes a test binary act as the MCP
// server.
const mcpVariable = "STINT_TEST_MCP"

// MCP returns an MCP server with one tool, greet. The server's program is the test
// binary. The test's TestMain must call ServeMCP.
func MCP() framework.MCPServer {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return framework.MCPServer{Name: "hello", Command: []string{self}, Env: map[string]string{mcpVariable: "1"}}
}

// ServeMCP acts as the MCP server if the process was started with the environment that
// MCP returns, and exits when its input ends. Otherwise it returns at once.
func ServeMCP() {
	if os.Getenv(mcpVariable) == "" {
		return
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Arguments       struct{ Name string }
			}
		}
		if in.Decode(&r) != nil {
			os.Exit(0)
		}
		if len(r.ID) == 0 {
			continue
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": r.ID}
		switch r.Method {
		case "initialize":
			answer["result"] = map[string]any{"protocolVersion": r.Params.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "hello", "version": "1"}}
		case "tools/list":
			schema := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}}
			answer["result"] = map[string]any{"tools": []any{map[string]any{"name": "greet", "description": "Greets a name.", "inputSchema": schema}}}
		case "tools/call":
			answer["result"] = map[string]any{"content": []any{map[string]any{"type": "text", "text": "Hello, " + r.Params.Arguments.Name + "."}}, "isError": r.Params.Arguments.Name == ""}
		default:
			answer["error"] = map[string]any{"code": -32601, "message": "no such method"}
		}
		if out.Encode(answer) != nil {
			os.Exit(1)
		}
	}
}
