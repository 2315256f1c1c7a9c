// Package protocol answers: what do the assistant and who starts it say to each
// other?
//
// The assistant is started with the path of a Config. It reads Inputs from its
// standard input and writes Lines on its standard output, each a JSON object on
// a line. The first Line is of type started, the last of type end.
package protocol

import (
	"encoding/json"

	"github.com/stint-dev/stint"
)

// Verb is the first argument of the program that makes it the assistant; the
// path of the configuration is the second.
const Verb = "assistant-in-sandbox"

// SessionDir is where the assistant keeps its conversation, below the home
// folder; SessionFile is its one file in there.
const (
	SessionDir  = ".stint/assistant"
	SessionFile = "session.jsonl"
)

// Config is what the assistant is. All paths are absolute.
type Config struct {
	// Provider is a type of stint's providers; offline needs no more of this.
	Provider string `json:"provider"`
	URL      string `json:"url,omitempty"`
	Key      string `json:"key,omitempty"` // a placeholder
	Model    string `json:"model,omitempty"`

	Instructions string          `json:"instructions,omitempty"`
	Session      string          `json:"session"` // file of the conversation
	NewID        string          `json:"newId"`   // of the conversation, if it is a new one
	Resume       string          `json:"resume,omitempty"`
	WorkDir      string          `json:"workDir"`
	Volumes      []Volume        `json:"volumes,omitempty"`
	MaxTurns     int64           `json:"maxTurns,omitempty"` // 0 is no bound
	Schema       json.RawMessage `json:"schema,omitempty"`
	MCP          []MCPServer     `json:"mcp,omitempty"`
	// ContextTokens is how long a conversation the model takes; 0 is 128000.
	ContextTokens int64 `json:"contextTokens,omitempty"`
	// Tries bounds how often one request is sent; 0 is the client's own bound.
	Tries int `json:"tries,omitempty"`
}

// Volume is a folder that the agent is shown.
type Volume struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Writable bool   `json:"writable,omitempty"`
}

// MCPServer is one that the assistant connects to: a URL or a command.
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

// Input is what the assistant is told: its prompt, once, and to end.
type Input struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// The types of lines.
const (
	LineStarted = "started"     // Session, Resumed
	LineDelta   = "delta"       // Kind, ID, Text: a piece of a message or of reasoning
	LineDone    = "done"        // Kind, ID: that was the last piece
	LineCall    = "tool_call"   // Tool
	LineResult  = "tool_result" // Tool, Text
	LineWorking = "working"     // a command runs that may be silent: a sign of life, for no log
	LineNotice  = "notice"      // Code, Text
	LineUsage   = "usage"       // Usage and Turns of the run so far
	LineEnd     = "end"         // OK and Text, the last message; or Reason and Error
)

// Line is what the assistant says.
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
	Error   string          `json:"error,omitempty"` // a sentence
}
