// Package framework answers: how is an agent driven?
//
// A framework is pure functions on data: Prepare turns a definition and a
// prompt into a command with its files, a Decoder turns what the command writes
// into events, says what to write back, and judges the end. Processes, files,
// signals, masking and storage belong to the engine; package catalog lists the
// frameworks that there are.
package framework

import (
	"encoding/json"

	"github.com/stint-dev/stint"
)

// Streams that an agent writes on.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// PromptFile is the name of the file with the prompt, below the sandbox's
// folder of run files.
const PromptFile = "prompt"

// Info tells what a framework is.
type Info struct {
	Name string
	// Programs are the names under which its command line is installed, in the
	// order of preference; empty for a framework that needs nothing installed.
	Programs []string
	// MinVersion is the oldest that is driven, as 1.2.3; empty: any.
	MinVersion string
	// Install is what a person types to have it, for messages.
	Install      string
	Capabilities stint.Capabilities
}

// Program is an installed command line.
type Program struct {
	Path    string // inside the sandbox
	Version string // as 1.2.3; empty where it is not known
}

// Endpoint is where the agent finds its model: an address inside the sandbox,
// and a placeholder for the key.
type Endpoint struct {
	Type string // anthropic, openai-responses or openai-chat
	URL  string // without a slash at its end; for OpenAI's it ends in /v1
	Key  string
}

// MCPServer is one that the agent is given, with placeholders for secrets.
type MCPServer struct {
	Name    string
	URL     string
	Headers map[string]string
	Command []string
	Env     map[string]string
}

// Conversation is what a run leaves for the one that continues it, beside the
// files that State names. It is stored with them as JSON.
type Conversation struct {
	Framework string `json:"framework"`
	Version   string `json:"version,omitempty"` // of the program
	// ID is the framework's own name for it; empty where it has none.
	ID string `json:"id,omitempty"`
	// Baseline is what the framework's own counters showed at the end, for those
	// that count over the whole conversation.
	Baseline stint.Tokens `json:"baseline,omitzero"`
}

// Input is what a framework prepares from. All paths are inside the sandbox.
type Input struct {
	Definition *stint.Definition
	Prompt     string
	PromptPath string // of the file with the prompt
	RunDir     string // read-only folder of run files; Plan.Files may lie there
	Home       string
	WorkDir    string
	Program    Program       // of Info.Programs, or of the definition's command where it was looked up
	Self       string        // Stint's own program
	Resume     *Conversation // nil begins a new one
	NewID      string        // a UUID that nobody else has
	Model      *Endpoint     // nil without a provider, and offline
	MCP        []MCPServer   // sorted by name
	Limits     stint.Limits  // of this run
	Schema     json.RawMessage
	// Mask hides secrets in a text; nil hides nothing. What the engine is given
	// whole it masks itself; who cuts a text masks it before.
	Mask func(text string) string
}

// Masked is a text without secrets.
func (in *Input) Masked(text string) string {
	if in.Mask == nil {
		return text
	}
	return in.Mask(text)
}

// File is written before the command starts, over what lies there.
type File struct {
	Path    string // absolute, below Home or RunDir
	Content []byte
	Mode    uint32 // permission bits; 0 is 0644
}

// Plan is how to run an agent.
type Plan struct {
	Argv  []string
	Env   map[string]string // beside what every agent gets, and over it
	Files []File
	// Stdin is written at the start. It stays open for what the decoder sends
	// where Open is set.
	Stdin         []byte
	KeepStdinOpen bool
	// Protocol says that the output is no text for people: it is decoded before
	// secrets are masked in what came of it.
	Protocol bool
	State    State
}

// State tells which files below the home folder are the conversation. The zero
// value is all of them.
type State struct {
	// Keep are folders and files, relative to the home folder: what lies in them
	// or is named like them. Elements may be patterns of path.Match.
	Keep []string
	// Drop are left out of what Keep lets in, in the same way.
	Drop []string
	// Check reads one kept file back and says what is wrong with it: a sentence's
	// end, such as "line 3 is no JSON". Nil checks nothing.
	Check func(name string, content []byte) error
}

// Framework drives one kind of agent. It is stateless.
type Framework interface {
	Info() Info
	// Check refuses what the framework cannot do of a definition, when it is
	// pushed. The error is a *stint.Error.
	Check(d *stint.Definition) error
	// Prepare makes the plan. A *stint.Error is a sentence for the user.
	Prepare(in Input) (Plan, error)
	NewDecoder(in Input) Decoder
}

// Step is what came of a piece of output.
type Step struct {
	Events []stint.OutputData
	// Native are whole lines as the agent wrote them, where Events are not its
	// very text.
	Native     []Native
	Send       []byte // to the agent's standard input
	CloseStdin bool   // then close it
	// Ended says that the agent's last word was heard: what follows it is no
	// more than the end of its process.
	Ended bool
	// Usage is what the run used so far, when it changed.
	Usage *stint.Usage
	// Turns counts the model's answers so far; 0 is unchanged or unknown.
	Turns int64
}

// Native is a line of the agent's own protocol.
type Native struct {
	Type string // of the line, as the framework names it
	Line string
}

// Decoder turns one run's output into events. Its methods are called by one
// goroutine at a time, none of them panics, whatever it is given.
type Decoder interface {
	// Write takes what the agent wrote on a stream and returns what it
	// completes; the rest waits for more.
	Write(stream string, p []byte) Step
	// Flush returns what a stream still holds back, at its end.
	Flush(stream string) Step
	// Interrupt is what to write to the agent so that it ends its turn and
	// then itself; nil where only signals do.
	Interrupt() []byte
	// Verdict judges a command that ended by itself, or whose last word was heard
	// before it was ended.
	Verdict(exitCode int) Verdict
	// Conversation is what the next run needs to continue; zero where there is
	// nothing but files.
	Conversation() Conversation
}

// Verdict is how a framework judges the end.
type Verdict struct {
	Completed bool
	// Reason is why not; empty is exit_code.
	Reason stint.Reason
	// Message is a sentence, empty on success.
	Message string
	// Final is the agent's last message, empty where there is none.
	Final string
}

// Join puts a step behind another.
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

// SchemaPrompt tells an agent what its last message has to be. It stands at the
// end of the prompt.
func SchemaPrompt(schema json.RawMessage) string {
	return "\n\nYour last message must be one JSON value that matches this JSON Schema, and nothing else, no code fence around it either:\n" + string(schema)
}
