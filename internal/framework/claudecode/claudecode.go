// Package claudecode drives Claude Code.
//
// Claude Code runs without a terminal and reads and writes lines of JSON. The
// prompt is a message on its standard input. Standard input stays open, so that a
// request to stop can be sent, and is closed after the final message.
package claudecode

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
)

const (
	mcpFile = "claude-mcp.json" // in the directory of run files
	keyName = "ANTHROPIC_API_KEY"
)

// maxRetries is the number of times that a model call is retried. With Claude
// Code's growing pauses, the retries take about a minute.
const maxRetries = "6"

// Framework drives Claude Code.
type Framework struct{}

// Info returns the properties of the framework.
func (Framework) Info() framework.Info {
	return framework.Info{
		Name: catalog.ClaudeCode.Name, Programs: []string{"claude"}, MinVersion: "2.1.0", Install: "npm install -g @anthropic-ai/claude-code",
		Capabilities: stint.Capabilities{Model: true, Tools: true, Conversation: true, MCP: true, Usage: true, Schema: true, Interrupt: true},
	}
}

// Check returns an error if the provider's type is not stint.ProviderAnthropic.
func (Framework) Check(d *stint.Definition) error { return catalog.ClaudeCode.CheckProvider(d) }

// Prepare returns a plan that starts Claude Code and sends the prompt.
func (Framework) Prepare(in framework.Input) (framework.Plan, error) {
	servers, err := mcpConfig(in.MCP)
	if err != nil {
		return framework.Plan{}, err
	}
	message, err := userMessage(in.FullPrompt())
	if err != nil {
		return framework.Plan{}, err
	}
	p := framework.Plan{
		Argv: append(framework.ProgramArgv(in, "claude"), arguments(in)...), Env: environment(in),
		Files: []framework.File{{Path: in.RunDir + "/" + mcpFile, Content: servers}},
		Stdin: message, KeepStdinOpen: true, Protocol: true,
		State: framework.State{Keep: []string{".claude/projects", ".claude/tasks"}, Check: framework.CheckLogs(jsonlines.CheckLog)},
	}
	if text := in.Definition.Instructions; text != "" {
		p.Files = append(p.Files, framework.File{Path: in.Home + "/.claude/CLAUDE.md", Content: []byte(text)})
	}
	return p, nil
}

// NewDecoder returns a decoder for the output of Claude Code.
func (Framework) NewDecoder(in framework.Input) framework.Decoder { return newDecoder(in) }

func arguments(in framework.Input) []string {
	args := []string{
		"-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose", "--include-partial-messages",
		"--dangerously-skip-permissions", "--strict-mcp-config", "--mcp-config", in.RunDir + "/" + mcpFile,
	}
	if id := in.ResumeID(); id != "" {
		args = append(args, "--resume", id)
	} else {
		args = append(args, "--session-id", in.NewID)
	}
	if in.Definition.Model != "" {
		args = append(args, "--model", in.Definition.Model)
	}
	if n := in.Limits.MaxTurns; n > 0 {
		args = append(args, "--max-turns", strconv.FormatInt(n, 10))
	}
	if usd := in.Limits.MaxCostUSD; usd > 0 {
		args = append(args, "--max-budget-usd", strconv.FormatFloat(usd, 'f', -1, 64))
	}
	return args
}

func environment(in framework.Input) map[string]string {
	env := map[string]string{
		"IS_SANDBOX": "1", // allows root to use --dangerously-skip-permissions
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_AUTOUPDATER":                      "1",
		"CLAUDE_CODE_MAX_RETRIES":                  maxRetries,
		"CLAUDE_CODE_ENABLE_TASKS":                 "0", // enables the tool TodoWrite; each of its calls contains the whole plan
		"MCP_CONNECTION_NONBLOCKING":               "0", // makes the first turn wait for MCP servers
	}
	if in.Model == nil {
		return env
	}
	env["ANTHROPIC_BASE_URL"], env[keyName] = in.Model.URL, in.Model.Key
	if model := in.Definition.Model; model != "" && in.Definition.Provider != nil && in.Definition.Provider.BaseURL != "" {
		// Endpoints of other providers do not have the models that Claude Code uses
		// for side tasks, so those tasks use the definition's model too.
		for _, class := range []string{"HAIKU", "SONNET", "OPUS"} {
			env["ANTHROPIC_DEFAULT_"+class+"_MODEL"] = model
		}
	}
	return env
}

func userMessage(text string) ([]byte, error) {
	type content struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	b, err := json.Marshal(struct {
		Type    string  `json:"type"`
		Message content `json:"message"`
	}{"user", content{"user", text}})
	if err != nil {
		return nil, fmt.Errorf("encode the prompt: %w", err)
	}
	return append(b, '\n'), nil
}

// mcpConfig returns the content of the file that lists the MCP servers. The file is
// written even if it lists no servers, so that Claude Code ignores the MCP servers
// that a repository in the workspace configures.
func mcpConfig(servers []framework.MCPServer) ([]byte, error) {
	type server struct {
		Type    string            `json:"type"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		Env     map[string]string `json:"env,omitempty"`
	}
	all := map[string]server{}
	for _, s := range servers {
		if s.URL != "" {
			all[s.Name] = server{Type: "http", URL: s.URL, Headers: s.Headers}
		} else if len(s.Command) > 0 {
			all[s.Name] = server{Type: "stdio", Command: s.Command[0], Args: s.Command[1:], Env: s.Env}
		}
	}
	b, err := json.MarshalIndent(map[string]any{"mcpServers": all}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the MCP servers: %w", err)
	}
	return append(b, '\n'), nil
}
