// Package framework answers: how is an agent driven?
//
// A framework is two pure functions: Prepare turns a definition and a prompt
// into a command, a Decoder turns what the command writes into events and
// judges the end. Processes, files, signals, masking and storage belong to the
// engine.
package framework

import (
	"fmt"

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

// Input is what a framework prepares from.
type Input struct {
	Definition *stint.Definition
	Prompt     string
	PromptPath string // of the file with the prompt, inside the sandbox
}

// Plan is how to run an agent.
type Plan struct {
	Argv  []string
	Stdin []byte
}

// Framework drives one kind of agent. It is stateless.
type Framework interface {
	Prepare(in Input) (Plan, error)
	NewDecoder() Decoder
}

// Decoder turns one run's output into events. Its methods are called by one
// goroutine at a time.
type Decoder interface {
	// Write takes what the agent wrote on a stream and returns what it
	// completes; the rest waits for more.
	Write(stream string, p []byte) []stint.OutputData
	// Flush returns what a stream still holds back, at its end.
	Flush(stream string) []stint.OutputData
	// Verdict judges a command that ended by itself with the exit code.
	Verdict(exitCode int) Verdict
}

// Verdict is how a framework judges the end. Message is empty on success.
type Verdict struct {
	Completed bool
	Message   string
}

// New finds the framework of a definition. One that this build does not drive
// is a *stint.Error.
func New(d *stint.Definition) (Framework, error) {
	switch d.Framework {
	case "shell":
		return shell{}, nil
	case "command":
		return command{}, nil
	}
	return nil, stint.InvalidParam("framework", "The framework '%s' is not available on this server; use shell or command.", d.Framework)
}

// shell runs the prompt as a bash script in the working directory.
type shell struct{}

func (shell) Prepare(in Input) (Plan, error) {
	return Plan{Argv: []string{"/bin/bash", in.PromptPath}}, nil
}

func (shell) NewDecoder() Decoder { return newText() }

// command runs the definition's command; it gets the prompt on standard input.
type command struct{}

func (command) Prepare(in Input) (Plan, error) {
	if len(in.Definition.Command) == 0 {
		return Plan{}, fmt.Errorf("framework command: the definition names no command")
	}
	return Plan{Argv: in.Definition.Command, Stdin: []byte(in.Prompt)}, nil
}

func (command) NewDecoder() Decoder { return newText() }
