package claudecode

import (
	"encoding/json"
	"strings"
)

// line is a line of output. It has the members of all types of lines. Members that
// a type of line does not use are zero.
type line struct {
	Type     string     `json:"type"`
	Subtype  string     `json:"subtype"`
	Parent   string     `json:"parent_tool_use_id"` // tool call that started the sub-agent; empty for the main agent
	Event    event      `json:"event"`
	Message  apiMessage `json:"message"`
	Content  string     `json:"content"`
	Error    string     `json:"error"`
	ToolName string     `json:"tool_name"`

	SessionID  string                          `json:"session_id"`
	Version    string                          `json:"claude_code_version"`
	MCPServers []struct{ Name, Status string } `json:"mcp_servers"`

	RequestID   json.RawMessage `json:"request_id"`
	Attempt     json.RawMessage `json:"attempt"`
	MaxRetries  json.RawMessage `json:"max_retries"`
	ErrorStatus json.RawMessage `json:"error_status"`

	IsError        bool                  `json:"is_error"`
	Result         string                `json:"result"`
	TerminalReason string                `json:"terminal_reason"`
	APIErrorStatus int                   `json:"api_error_status"` // HTTP status of the provider's error; 0 if the provider returned no error
	Errors         []string              `json:"errors"`
	ModelUsage     map[string]modelUsage `json:"modelUsage"`
	TotalCostUSD   *float64              `json:"total_cost_usd"`
}

// LineType returns the type of the line.
func (l *line) LineType() string { return l.Type }

// failure returns a short phrase that describes why the model did not answer.
func (l *line) failure() string {
	if status := string(l.ErrorStatus); status != "" && status != "null" {
		return "status " + status
	}
	if l.Error != "" && l.Error != "unknown" {
		return l.Error
	}
	return "no connection"
}

// event is an event of the model API's stream.
type event struct {
	Type         string     `json:"type"`
	Message      apiMessage `json:"message"`
	ContentBlock block      `json:"content_block"`
	Delta        block      `json:"delta"`
	Usage        *tokens    `json:"usage"`
}

// apiMessage is a message of the model API, or a part of a message.
type apiMessage struct {
	ID      string  `json:"id"`
	Model   string  `json:"model"`
	Content []block `json:"content"`
	Usage   *tokens `json:"usage"`
}

// block is a content block of a message, or a delta of a content block.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Content   resultText      `json:"content"`
}

// resultText is the content of a tool result as text.
type resultText string

// UnmarshalJSON decodes a JSON string or a list of parts. A part without text is
// replaced by its type in brackets. Any other JSON value becomes an empty text.
func (t *resultText) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*t = resultText(text)
		return nil
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return nil //nolint:nilerr // not a content that can be shown
	}
	var texts []string
	for _, p := range parts {
		if p.Text == "" && p.Type != "" {
			p.Text = "[" + p.Type + "]"
		}
		texts = append(texts, p.Text)
	}
	*t = resultText(strings.Join(texts, "\n"))
	return nil
}

// modelUsage is the usage of a model in the whole run.
type modelUsage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens"`
	CacheWrite int64 `json:"cacheCreationInputTokens"`
}
