package framework

import (
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// Shell runs the prompt as a bash script in the working directory.
type Shell struct{}

// Info returns the properties of the framework.
func (Shell) Info() Info { return Info{Name: catalog.Shell.Name} }

// Check accepts every definition.
func (Shell) Check(*stint.Definition) error { return nil }

// Prepare returns a plan that starts bash with the file that contains the prompt.
func (Shell) Prepare(in Input) (Plan, error) {
	return Plan{Argv: []string{"/bin/bash", in.PromptPath}}, nil
}

// NewDecoder returns a decoder for plain text.
func (Shell) NewDecoder(in Input) Decoder { return newText(in) }

// Command runs the definition's command with the prompt on standard input.
type Command struct{}

// Info returns the properties of the framework.
func (Command) Info() Info { return Info{Name: catalog.Command.Name} }

// Check accepts every definition, because package definition already requires a
// command.
func (Command) Check(*stint.Definition) error { return nil }

// Prepare returns a plan that starts the definition's command unchanged, with the
// prompt on standard input.
func (Command) Prepare(in Input) (Plan, error) {
	return Plan{Argv: in.Definition.Command, Stdin: []byte(in.Prompt)}, nil
}

// NewDecoder returns a decoder for plain text.
func (Command) NewDecoder(in Input) Decoder { return newText(in) }
