// Package protocol defines the input and output of the built-in assistant.
//
// The assistant is started with the path of a file that contains a Config. It reads
// Inputs from standard input and writes Lines to standard output, one JSON object
// per line. The first Line has the type LineStarted, the last the type LineEnd.
package protocol

import (
	"encoding/json"

	"github.com/stint-dev/stint"
)

// Verb is the first argument of the stint binary that makes it run as the
// assistant. The second argument is the path of the configuration file.
const Verb = "assistant-in-sandbox"

// SessionDir is the directory of the conversation, relative to the home directory.
// SessionFile is the name of the only file in SessionDir.
const (
	SessionDir  = ".stint/assistant"
	SessionFile = "session.jsonl"
)

// Config is the assistant's configuration. All paths are absolute.
type Config struct {
	// Provider is a provider type, such as stint.ProviderAnthropic. The offline
	// provider needs no URL, key, or model.
	Provider string `json:"provider"`
	URL      string `json:"url,omitempty"`
	Key      string `json:"key,omitempty"` // the placeholder of the API key
	Model    string `json:"model,omitempty"`

	Instructions string          `json:"instructions,omitempty"`
	Session      string          `json:"session"` // path of the file of the conversation
	NewID        string          `json:"newId"`   // ID to use for a new conversation
	Resume       string          `json:"resume,omitempty"`
	WorkDir      string          `json:"workDir"`
	Volumes      []Volume        `json:"volumes,omitempty"`
	MaxTurns     int64           `json:"maxTurns,omitempty"` // 0 means no limit
	Schema       json.RawMessage `json:"schema,omitempty"`
	MCP          []MCPServer     `json:"mcp,omitempty"`
	// ContextTokens is the size of the model's context; 0 means 128000.
	ContextTokens int64 `json:"contextTokens,omitempty"`
	// Tries is the maximum number of attempts per request; 0 means the client's
	// default.
	Tries int `json:"tries,omitempty"`
}

// Volume is a volume that is mounted in the sandbox.
type Volume struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Writable bool   `json:"writable,omitempty"`
}

// MCPServer is an MCP server, reached by URL or started by a command.
type MCPServer struct {
	Name    string            `json:"name"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// The types of inputs.
const (
	InputPrompt    = "prompt"
	InputInterrupt = "interrupt"
)

// Input is a message to the assistant: the prompt, once, or a request to stop.
type Input struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// The types of lines, each with the fields of Line that it uses.
const (
	LineStarted = "started"     // Session, Resumed
	LineDelta   = "delta"       // Kind, ID, Text: a piece of a message or of reasoning
	LineDone    = "done"        // Kind, ID: end of the message
	LineCall    = "tool_call"   // Tool
	LineResult  = "tool_result" // Tool, Text
	LineWorking = "working"     // a command runs without output; prevents the run from counting as idle; not logged
	LineNotice  = "notice"      // Code, Text
	LineUsage   = "usage"       // Usage and Turns of the run so far
	LineEnd     = "end"         // OK and Text (the last message), or Reason and Error
)

// Line is one line of the assistant's output. Type is one of the Line constants, which
// list the other fields that are set.
type Line struct {
	Type    string          `json:"type"`
	Session string          `json:"session,omitempty"`
	Resumed bool            `json:"resumed,omitempty"`
	Kind    stint.ItemKind  `json:"kind,omitempty"` // message or reasoning
	ID      string          `json:"id,omitempty"`
	Text    string          `json:"text,omitempty"`
	Tool    *stint.ToolItem `json:"tool,omitempty"`
	Code    string          `json:"code,omitempty"`
	Usage   *stint.Usage    `json:"usage,omitempty"`
	Turns   int64           `json:"turns,omitempty"`
	OK      bool            `json:"ok,omitempty"`
	Reason  stint.Reason    `json:"reason,omitempty"`
	Error   string          `json:"error,omitempty"` // a sentence for the user
}

// LineType returns l.Type, one of the Line constants.
func (l *Line) LineType() string { return l.Type }
