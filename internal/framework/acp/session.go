package acp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// initializeID is the ID of the initialize request.
const initializeID = 1

// initializeRequest returns the initialize request. No client capability is declared:
// agents access files and run commands themselves, inside the sandbox.
func initializeRequest() []byte {
	return call(initializeID, "initialize", map[string]any{
		"protocolVersion": protocolVersion,
		"clientCapabilities": map[string]any{
			"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false,
		},
		"clientInfo": map[string]string{"name": "stint", "title": "Stint", "version": "1"},
	})
}

// initializeResult is the initialize response.
type initializeResult struct {
	Version      int `json:"protocolVersion"`
	Capabilities struct {
		Load bool `json:"loadSession"`
		MCP  struct {
			HTTP bool `json:"http"`
		} `json:"mcpCapabilities"`
		Session struct {
			Resume json.RawMessage `json:"resume"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
	Info struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"agentInfo"`
	Auth []authMethod `json:"authMethods"`
}

// authMethod is an authentication method of the agent.
type authMethod struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Vars []struct {
		Name string `json:"name"`
	} `json:"vars"`
}

// isUnattended reports whether the method uses a key that the agent already has.
func (m *authMethod) isUnattended() bool {
	id := strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(m.ID))
	return m.Type == "env_var" || m.Type != "terminal" && (strings.Contains(id, "api-key") || strings.Contains(id, "apikey"))
}

// canResume reports whether the agent can resume a session without sending its
// history.
func (g *initializeResult) canResume() bool {
	r := g.Capabilities.Session.Resume
	return len(r) > 0 && string(r) != "null" && string(r) != "false"
}

type nameValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type mcpServer struct {
	Type    string       `json:"type,omitempty"` // "http"; empty for a command
	Name    string       `json:"name"`
	URL     string       `json:"url,omitempty"`
	Headers *[]nameValue `json:"headers,omitempty"`
	Command string       `json:"command,omitempty"`
	Args    *[]string    `json:"args,omitempty"`
	Env     *[]nameValue `json:"env,omitempty"`
}

// mcpServers returns the MCP servers that the agent supports. If servers are left
// out because the agent does not support HTTP, it also returns a notice that names
// them.
func mcpServers(all []framework.MCPServer, http bool) ([]mcpServer, []stint.OutputData) {
	servers, refused := []mcpServer{}, []string(nil)
	for _, s := range all {
		switch {
		case len(s.Command) > 0:
			args, env := append([]string{}, s.Command[1:]...), pairs(s.Env)
			servers = append(servers, mcpServer{Name: s.Name, Command: s.Command[0], Args: &args, Env: &env})
		case http:
			headers := pairs(s.Headers)
			servers = append(servers, mcpServer{Type: "http", Name: s.Name, URL: s.URL, Headers: &headers})
		default:
			refused = append(refused, s.Name)
		}
	}
	if refused == nil {
		return servers, nil
	}
	return servers, []stint.OutputData{transcript.Notice("mcp_not_offered",
		"The agent does not support MCP servers over HTTP, so these are missing: "+strings.Join(refused, ", ")+".")}
}

func pairs(m map[string]string) []nameValue {
	out := make([]nameValue, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, nameValue{name, m[name]})
	}
	return out
}

// block is a content block of a prompt.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// prompt returns the content blocks of the prompt. If fresh is true (a new
// conversation), the first block contains the definition's instructions.
func prompt(in *framework.Input, fresh bool) []block {
	var blocks []block
	if text := in.Definition.Instructions; fresh && text != "" {
		blocks = append(blocks, block{"text", strings.TrimRight(text, "\n") + "\n\n"})
	}
	return append(blocks, block{"text", in.FullPrompt()})
}

// sessionResult is the response that opens a session.
type sessionResult struct {
	ID      string         `json:"sessionId"`
	Options []configOption `json:"configOptions"`
	Models  *struct {
		Current   string `json:"currentModelId"`
		Available []struct {
			ID   string `json:"modelId"`
			Name string `json:"name"`
		} `json:"availableModels"`
	} `json:"models"`
}

type configOption struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Current  json.RawMessage `json:"currentValue"`
	Options  []configValue   `json:"options"`
}

type configValue struct {
	Value   string        `json:"value"`
	Name    string        `json:"name"`
	Options []configValue `json:"options"` // values of the group, if this value is a group
}

// modelRequest returns the request that selects a model. The method is empty if
// the model is already selected or cannot be selected. A model name that the agent
// does not list is sent unchanged, because some agents accept aliases.
func (o *sessionResult) modelRequest(session, model string) (method string, params any) {
	for _, option := range o.Options {
		if option.Category != "model" && (option.Category != "" || option.ID != "model") {
			continue
		}
		value := pick(option.Options, model)
		if decode[string](option.Current) == value {
			return "", nil
		}
		return "session/set_config_option", map[string]string{"sessionId": session, "configId": option.ID, "value": value}
	}
	if o.Models == nil || o.Models.Current == model {
		return "", nil
	}
	id := model
	for _, m := range o.Models.Available {
		if strings.EqualFold(m.Name, model) {
			id = m.ID
		}
	}
	return "session/set_model", map[string]string{"sessionId": session, "modelId": id}
}

// pick returns the value with the name model, ignoring case. It also searches groups.
// If no value has that name, it returns model.
func pick(values []configValue, model string) string {
	for _, v := range values {
		for _, inner := range append([]configValue{v}, v.Options...) {
			if inner.Value != "" && strings.EqualFold(inner.Name, model) {
				return inner.Value
			}
		}
	}
	return model
}
