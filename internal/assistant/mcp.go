package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/llm"
)

const (
	connectTime = 20 * time.Second // time limit for connecting and listing tools
	closeTime   = 300 * time.Millisecond
	maxToolName = 64 // bytes; limit of the providers
	maxTools    = 512
)

// connect connects to all servers concurrently and adds their tools. It reports and
// skips a server that cannot be reached. disconnect closes the connections.
func (b *toolbox) connect(ctx context.Context, servers []protocol.MCPServer, out *lineWriter) (disconnect func()) {
	connected := make([]*server, len(servers))
	var wg sync.WaitGroup
	for i, c := range servers {
		wg.Go(func() {
			s, err := connect(ctx, c, b.dir)
			if err != nil {
				out.notice("mcp", fmt.Sprintf("The MCP server '%s' could not be reached, so its tools are missing: %v.", c.Name, err))
				return
			}
			connected[i] = s
		})
	}
	wg.Wait()
	for _, s := range connected {
		if s != nil {
			b.addServer(s)
		}
	}
	return func() {
		var wg sync.WaitGroup
		for _, s := range connected {
			if s != nil {
				wg.Go(func() { _ = s.session.Close() }) // the server ends with this process anyway
			}
		}
		wg.Wait()
	}
}

// server is a connection to an MCP server, with its tools.
type server struct {
	name    string
	session *mcp.ClientSession
	tools   []*mcp.Tool
}

func connect(ctx context.Context, c protocol.MCPServer, dir string) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "stint-assistant", Version: "1"}, nil)
	transport, stderr := transportOf(c, dir)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, withStderr(err, stderr)
	}
	s := &server{name: c.Name, session: session}
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			_ = session.Close() // the first error is more useful
			return nil, withStderr(err, stderr)
		}
		if len(s.tools) == maxTools {
			break
		}
		s.tools = append(s.tools, t)
	}
	return s, nil
}

func transportOf(c protocol.MCPServer, dir string) (mcp.Transport, *headTail) {
	if c.URL != "" {
		return &mcp.StreamableClientTransport{
			Endpoint: c.URL, MaxRetries: 2, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: headerTransport(c.Headers)},
		}, nil
	}
	stderr := &headTail{}
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, stderr, os.Environ()
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		cmd.Env = append(cmd.Env, name+"="+c.Env[name])
	}
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: closeTime}, stderr
}

// withStderr adds the standard error of the server's program to an error.
func withStderr(err error, stderr *headTail) error {
	if stderr == nil {
		return err
	}
	text, _ := stderr.text()
	if text = strings.TrimSpace(text); text == "" {
		return err
	}
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[len(text)-500:], "")
	}
	return fmt.Errorf("%w; its standard error: %s", err, text)
}

// headerTransport is a transport that adds headers to each request.
type headerTransport map[string]string

func (h headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if r.Method == http.MethodDelete { // the request ends the session; limit the wait for it
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		ctx = limited
	}
	r = r.Clone(ctx)
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// addServer adds the tools of an MCP server to the toolbox.
func (b *toolbox) addServer(s *server) {
	for _, t := range s.tools {
		schema, err := json.Marshal(t.InputSchema)
		if err != nil || string(schema) == "null" {
			schema = object(0)
		}
		name, session := b.uniqueName(toolName(s.name, t.Name)), s.session
		b.tools = append(b.tools, tool{
			Tool: llm.Tool{Name: name, Description: t.Description, Schema: schema},
			run: func(ctx context.Context, input json.RawMessage) outcome {
				return call(ctx, session, t.Name, input)
			},
		})
	}
}

// toolName returns the name of a server's tool in a form that all providers
// accept: with limited characters, and at most maxToolName bytes long.
func toolName(server, name string) string {
	full := "mcp__" + server + "__" + name
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, full)
	if len(plain) <= maxToolName {
		return plain
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(full)) // never fails
	return fmt.Sprintf("%s_%08x", plain[:maxToolName-9], h.Sum32())
}

// uniqueName returns name, or name with a number if another tool has that name.
func (b *toolbox) uniqueName(name string) string {
	taken := func(n string) bool {
		return slices.ContainsFunc(b.tools, func(t tool) bool { return t.Name == n })
	}
	for i := 2; taken(name); i++ {
		end := fmt.Sprintf("_%d", i)
		name = name[:min(len(name), maxToolName-len(end))] + end
	}
	return name
}

func call(ctx context.Context, session *mcp.ClientSession, name string, input json.RawMessage) outcome {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: input})
	if err != nil {
		if errors.Is(err, mcp.ErrConnectionClosed) {
			return failed("The connection to the MCP server has ended.")
		}
		return failed("%v", err)
	}
	return outcome{text: contentText(result), failed: result.IsError}
}

// contentText returns the result of a tool as text.
func contentText(result *mcp.CallToolResult) string {
	var parts []string
	for _, c := range result.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			parts = append(parts, fmt.Sprintf("(an image, %s, %d bytes)", c.MIMEType, len(c.Data)))
		case *mcp.AudioContent:
			parts = append(parts, fmt.Sprintf("(sound, %s, %d bytes)", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			parts = append(parts, "("+c.URI+")")
		case *mcp.EmbeddedResource:
			if c.Resource != nil {
				parts = append(parts, c.Resource.Text)
			}
		}
	}
	if len(parts) == 0 && result.StructuredContent != nil {
		raw, err := json.Marshal(result.StructuredContent)
		if err == nil {
			return string(raw)
		}
	}
	return strings.Join(parts, "\n")
}
