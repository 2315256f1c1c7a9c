// Package framework defines how agents are driven.
//
// A framework consists of pure functions: Prepare turns a definition and a
// prompt into a command with its files. A Decoder turns the command's output
// into events, decides what to send back, and returns the verdict. Processes,
// files, signals, masking, and storage belong to the worker. Package registry
// lists the frameworks.
package framework

import (
	"encoding/json"

	"github.com/stint-dev/stint"
)

// The output streams of an agent.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// PromptFile is the name of the file with the prompt, in the directory of run
// files.
const PromptFile = "prompt"

// Info describes a framework.
type Info struct {
	Name string
	// Programs are the names of its command-line program, in order of
	// preference. It is empty if the framework needs no installed program.
	Programs []string
	// MinVersion is the oldest supported version, such as 1.2.3, or empty for
	// any.
	MinVersion string
	// Install is the command that installs the program, for messages.
	Install      string
	Capabilities stint.Capabilities
}

// Program is an installed command line.
type Program struct {
	Path    string // inside the sandbox
	Version string // such as 1.2.3; empty if not known
}

// Endpoint is the address of the model inside the sandbox, with a placeholder
// for the key.
type Endpoint struct {
	Type string // anthropic, openai-responses or openai-chat
	URL  string // without a slash at the end; OpenAI's ends in /v1
	Key  string
}

// MCPServer is an MCP server for the agent. Secrets are placeholders.
type MCPServer struct {
	Name    string
	URL     string
	Headers map[string]string
	Command []string
	Env     map[string]string
}

// Conversation identifies an agent's conversation for the next run. It is
// stored as JSON beside the files that State selects.
type Conversation struct {
	Framework string `json:"framework"`
	Version   string `json:"version,omitempty"` // of the program
	// ID is the agent's own ID of the conversation, or empty.
	ID string `json:"id,omitempty"`
	// Baseline holds the agent's own token counters at the end of the run, if
	// they count over the whole conversation.
	Baseline stint.Tokens `json:"baseline,omitzero"`
}

// Input is the input of Prepare and NewDecoder. All paths are inside the
// sandbox.
type Input struct {
	Definition *stint.Definition
	Prompt     string
	PromptPath string // of the file with the prompt
	RunDir     string // read-only directory of run files; Plan.Files may be in it
	Home       string
	WorkDir    string
	Program    Program       // one of Info.Programs, or the resolved command of the definition
	Self       string        // path of the stint binary
	Resume     *Conversation // nil for a new conversation
	NewID      string        // a new UUID
	Model      *Endpoint     // nil without a provider and for the offline provider
	MCP        []MCPServer   // sorted by name
	Limits     stint.Limits  // of this run
	Schema     json.RawMessage
	// Mask replaces secrets in a text; nil replaces nothing. The worker masks
	// all events. Code that shortens a text must mask it first, because a
	// secret that is cut in two is not found.
	Mask func(text string) string
}

// Masked returns text with secrets replaced.
func (in *Input) Masked(text string) string {
	if in.Mask == nil {
		return text
	}
	return in.Mask(text)
}

// FullPrompt returns the prompt, with the request for a final message that
// matches the schema if there is one.
func (in *Input) FullPrompt() string {
	if len(in.Schema) == 0 {
		return in.Prompt
	}
	return in.Prompt + SchemaPrompt(in.Schema)
}

// ResumeID returns the agent's ID of the conversation to resume, or "".
func (in *Input) ResumeID() string {
	if in.Resume == nil {
		return ""
	}
	return in.Resume.ID
}

// File is written before the command starts. An existing file is replaced.
type File struct {
	Path    string // absolute, in Home or RunDir
	Content []byte
	Mode    uint32 // permission bits; 0 means 0644
}

// Plan describes the command of a run.
type Plan struct {
	Argv  []string
	Env   map[string]string // added to the environment of every agent; overrides it
	Files []File
	// Stdin is written at the start. Then standard input is closed, unless
	// KeepStdinOpen is set.
	Stdin         []byte
	KeepStdinOpen bool
	// Protocol says that the output is a protocol: it is decoded first, and
	// secrets are masked in the events. Other output is masked as text.
	Protocol bool
	State    State
}

// State selects the files in the home directory that hold the conversation. The
// zero value selects all files.
type State struct {
	// Keep lists directories and files, relative to the home directory. A
	// directory includes its content. Elements may be path.Match patterns.
	Keep []string
	// Drop lists exceptions from Keep, in the same form.
	Drop []string
	// Check validates the content of a kept file. The error is a clause such as
	// "line 3 is not JSON". Nil accepts everything.
	Check func(name string, content []byte) error
}

// Framework drives one kind of agent. Implementations are stateless.
type Framework interface {
	Info() Info
	// Check returns a *stint.Error if the framework does not support the
	// definition. It is called when a definition is pushed.
	Check(d *stint.Definition) error
	// Prepare returns the plan. An error for the user is a *stint.Error.
	Prepare(in Input) (Plan, error)
	NewDecoder(in Input) Decoder
}

// Step is the result of decoding a piece of output.
type Step struct {
	Events []stint.OutputData
	// Native holds whole lines as the agent wrote them, unless the events
	// contain their exact text.
	Native     []Native
	Send       []byte // bytes for the agent's standard input
	CloseStdin bool   // close standard input after Send
	// Ended says that the agent has sent its final message. Only the end of its
	// process can follow.
	Ended bool
	// Usage is the usage of the run so far, or nil if it did not change.
	Usage *stint.Usage
	// Turns is the number of model answers so far, or 0 if it did not change.
	Turns int64
}

// Native is a line of the agent's own protocol.
type Native struct {
	Type string // as the framework names it
	Line string
}

// Decoder turns the output of one run into events. Its methods must not be
// called concurrently. They must not panic on any input.
type Decoder interface {
	// Write decodes output of a stream. Incomplete data is kept for the next
	// call.
	Write(stream string, p []byte) Step
	// Flush decodes the data that is left at the end of a stream.
	Flush(stream string) Step
	// Interrupt returns the bytes that ask the agent to end its turn and then
	// itself, or nil if the agent reacts only to signals.
	Interrupt() []byte
	// Verdict returns the result of a command that ended by itself, or after
	// its final message.
	Verdict(exitCode int) Verdict
	// Conversation returns what the next run needs to continue. It is zero if
	// files are enough.
	Conversation() Conversation
}

// Verdict is the result of a run from the framework's point of view.
type Verdict struct {
	Completed bool
	// Reason is why the run did not complete; empty means exit_code.
	Reason stint.Reason
	// Message is a sentence, or empty on success.
	Message string
	// Final is the agent's last message, or empty.
	Final string
}

// Join appends next to s.
func (s *Step) Join(next Step) {
	s.Events = append(s.Events, next.Events...)
	s.Native = append(s.Native, next.Native...)
	s.Send = append(s.Send, next.Send...)
	s.CloseStdin = s.CloseStdin || next.CloseStdin
	s.Ended = s.Ended || next.Ended
	if next.Usage != nil {
		s.Usage = next.Usage
	}
	if next.Turns > 0 {
		s.Turns = next.Turns
	}
}

// SchemaPrompt returns the end of a prompt that asks for a final message that
// matches a schema.
func SchemaPrompt(schema json.RawMessage) string {
	return "\n\nYour last message must be one JSON value that matches this JSON Schema, and nothing else, no code fence around it either:\n" + string(schema)
}
