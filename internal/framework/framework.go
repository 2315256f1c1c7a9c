// Package framework defines the interface of the adapters that drive agents.
//
// A framework performs no I/O. Prepare turns a definition and a prompt into a
// command with its files. A Decoder turns the command's output into events,
// decides what to send back, and returns the verdict. The worker is responsible
// for processes, files, signals, masking, and storage. Package registry lists the
// frameworks.
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

// PromptFile is the name of the file in Input.RunDir that contains the prompt.
const PromptFile = "prompt"

// Info describes a framework.
type Info struct {
	Name string
	// Programs lists the possible names of the agent's command-line program, in
	// order of preference. It is empty if the framework needs no installed program.
	Programs []string
	// MinVersion is the oldest supported version, such as 1.2.3. If it is empty,
	// every version is supported.
	MinVersion string
	// Install is the command that installs the program. It is only shown to users.
	Install      string
	Capabilities stint.Capabilities
}

// Program is an installed command-line program.
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

// MCPServer is an MCP server that the agent may use. It has either a URL or a
// command. Its fields contain placeholders instead of secrets.
type MCPServer struct {
	Name    string
	URL     string
	Headers map[string]string
	Command []string
	Env     map[string]string
}

// Conversation identifies an agent's conversation, so that the next run can
// continue it. It is stored as JSON with the files that State selects.
type Conversation struct {
	Framework string `json:"framework"`
	Version   string `json:"version,omitempty"` // of the program
	// ID is the agent's own ID of the conversation, or empty.
	ID string `json:"id,omitempty"`
	// Baseline holds the agent's own token counters at the end of the run. It is
	// zero if the agent counts each run separately.
	Baseline stint.Tokens `json:"baseline,omitzero"`
}

// Input is the input of Prepare and NewDecoder. All paths are inside the
// sandbox.
type Input struct {
	Definition *stint.Definition
	Prompt     string
	PromptPath string // of the file with the prompt
	RunDir     string // directory of run files, read-only for the agent; Plan.Files may be in it
	Home       string
	WorkDir    string
	Program    Program         // one of Info.Programs, or the definition's command with its resolved path
	Self       string          // path of the stint binary
	Resume     *Conversation   // nil for a new conversation
	NewID      string          // a new UUID
	Model      *Endpoint       // nil if there is no provider or only the offline one
	MCP        []MCPServer     // sorted by name
	Limits     stint.Limits    // of this run
	Schema     json.RawMessage // JSON Schema for the final message; may be empty
	// Mask replaces secrets in a text; nil replaces nothing. The worker masks
	// all events. Code that shortens a text must mask it before, because the
	// worker does not find a secret of which only a part is left.
	Mask func(text string) string
}

// Masked returns text with secrets replaced.
func (in *Input) Masked(text string) string {
	if in.Mask == nil {
		return text
	}
	return in.Mask(text)
}

// FullPrompt returns the prompt. If there is a schema, it ends with the request
// for a final message that matches it.
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

// File is a file that the worker writes before the command starts. It replaces
// an existing file.
type File struct {
	Path    string // absolute, in Home or RunDir
	Content []byte
	Mode    uint32 // permission bits; 0 means 0644
}

// Plan describes the command of a run.
type Plan struct {
	Argv  []string
	Env   map[string]string // added to the variables that every agent gets; replaces those of the same name
	Files []File
	// Stdin is written to the command's standard input, which is then closed
	// unless KeepStdinOpen is set.
	Stdin         []byte
	KeepStdinOpen bool
	// Protocol is set if the output consists of protocol messages. These are
	// decoded first, and secrets are masked in the events. Other output is masked
	// as text before it is decoded.
	Protocol bool
	State    State
}

// State selects the files in the home directory that hold the conversation. The
// zero value selects all files.
type State struct {
	// Keep lists directories and files, relative to the home directory. A
	// directory includes its content. Path elements may be path.Match patterns.
	Keep []string
	// Drop lists exceptions from Keep, in the same form.
	Drop []string
	// Check validates the content of a kept file. Its error text is a clause such
	// as "line 3 is not JSON". If Check is nil, all content is valid.
	Check func(name string, content []byte) error
}

// Framework drives one kind of agent. Implementations are stateless.
type Framework interface {
	Info() Info
	// Check returns a *stint.Error if the framework does not support the
	// definition. It is called when a definition is pushed.
	Check(d *stint.Definition) error
	// Prepare returns the plan of a run. An error that the user can fix is a
	// *stint.Error.
	Prepare(in Input) (Plan, error)
	NewDecoder(in Input) Decoder
}

// Step is the result of decoding a piece of output.
type Step struct {
	Events []stint.OutputData
	// Native holds the complete lines that the agent wrote, except lines whose
	// exact text is in the events.
	Native     []Native
	Send       []byte // bytes for the agent's standard input
	CloseStdin bool   // close standard input after Send
	// Ended is set if the agent has sent its final message. No further output is
	// expected; the process only has to exit.
	Ended bool
	// Usage is the usage of the run so far, or nil if it did not change.
	Usage *stint.Usage
	// Turns is the number of model answers so far, or 0 if it did not change.
	Turns int64
}

// Native is a line of the agent's own protocol.
type Native struct {
	Type string // the protocol's own name for the kind of message
	Line string
}

// Decoder turns the output of one run into events. Callers must not call its
// methods concurrently. Implementations must not panic on any input.
type Decoder interface {
	// Write decodes output of a stream. Incomplete data is kept for the next
	// call.
	Write(stream string, p []byte) Step
	// Flush decodes the data that is left at the end of a stream.
	Flush(stream string) Step
	// Interrupt returns a message for standard input that asks the agent to end
	// its turn and exit, or nil if the agent reacts only to signals.
	Interrupt() []byte
	// Verdict returns the result of a command that exited by itself, or that was
	// ended after its final message.
	Verdict(exitCode int) Verdict
	// Conversation returns the state that the next run needs to continue the
	// conversation. It is zero if the files that State selects are enough.
	Conversation() Conversation
}

// Verdict is the result of a run from the framework's point of view.
type Verdict struct {
	Completed bool
	// Reason is the reason why the run did not complete; empty means exit_code.
	Reason stint.Reason
	// Message is a sentence, or empty on success.
	Message string
	// Final is the agent's last message, or empty.
	Final string
}

// Join adds the result of the next piece of output to s.
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

// SchemaPrompt returns a text to append to a prompt. It asks for a final message
// that matches the schema.
func SchemaPrompt(schema json.RawMessage) string {
	return "\n\nYour last message must be one JSON value that matches this JSON Schema, and nothing else, without a code fence:\n" + string(schema)
}
