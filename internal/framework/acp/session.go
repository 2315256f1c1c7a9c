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

// greetingID is the number of the first request.
const greetingID = 1

// greeting is the first line of the talk. No capability is declared: agents
// read and write files and run commands themselves, inside their sandbox.
func greeting() []byte {
	return call(greetingID, "initialize", map[string]any{
		"protocolVersion": protocolVersion,
		"clientCapabilities": map[string]any{
			"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false,
		},
		"clientInfo": map[string]string{"name": "stint", "title": "Stint", "version": "1"},
	})
}

// greeted is the agent's answer to it.
type greeted struct {
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

// authMethod is a way to log in.
type authMethod struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Vars []struct {
		Name string `json:"name"`
	} `json:"vars"`
}

// unattended reports whether it logs in with a key that the agent has already,
// and asks nobody.
func (m *authMethod) unattended() bool {
	id := strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(m.ID))
	return m.Type == "env_var" || m.Type != "terminal" && (strings.Contains(id, "api-key") || strings.Contains(id, "apikey"))
}

// resumes reports whether the agent goes on with a conversation without telling
// it all again.
func (g *greeted) resumes() bool {
	r := g.Capabilities.Session.Resume
	return len(r) > 0 && string(r) != "null" && string(r) != "false"
}

type nameValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type mcpServer struct {
	Type    string       `json:"type,omitempty"` // http; a command has none
	Name    string       `json:"name"`
	URL     string       `json:"url,omitempty"`
	Headers *[]nameValue `json:"headers,omitempty"`
	Command string       `json:"command,omitempty"`
	Args    *[]string    `json:"args,omitempty"`
	Env     *[]nameValue `json:"env,omitempty"`
}

// mcpServers are those that the agent can take, with a notice on the others.
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
		"The agent takes no MCP servers over HTTP, so it has to do without: "+strings.Join(refused, ", ")+".")}
}

func pairs(m map[string]string) []nameValue {
	out := make([]nameValue, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, nameValue{name, m[name]})
	}
	return out
}

// block is a piece of content.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// prompt is what the agent is asked; a new conversation begins with the
// definition's instructions.
func prompt(in *framework.Input, fresh bool) []block {
	var blocks []block
	if text := in.Definition.Instructions; fresh && text != "" {
		blocks = append(blocks, block{"text", strings.TrimRight(text, "\n") + "\n\n"})
	}
	text := in.Prompt
	if len(in.Schema) > 0 {
		text += framework.SchemaPrompt(in.Schema)
	}
	return append(blocks, block{"text", text})
}

// opened is the agent's answer to a session's beginning.
type opened struct {
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
	Options []configValue `json:"options"` // of a group
}

// modelRequest is what tells the agent to use a model; no method where it uses
// it already or has no such choice. A name that the agent does not list is left
// to it: some know aliases, and who does not says so.
func (o *opened) modelRequest(session, model string) (method string, params any) {
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

// pick finds the value of a name, in groups too; what is no name is a value.
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
