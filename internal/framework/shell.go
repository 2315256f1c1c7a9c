package framework

import (
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// Shell runs the prompt as a bash script in the working directory.
type Shell struct{}

// Info describes it.
func (Shell) Info() Info { return Info{Name: catalog.Shell.Name} }

// Check refuses nothing.
func (Shell) Check(*stint.Definition) error { return nil }

// Prepare gives the file with the prompt to bash.
func (Shell) Prepare(in Input) (Plan, error) {
	return Plan{Argv: []string{"/bin/bash", in.PromptPath}}, nil
}

// NewDecoder takes output as text.
func (Shell) NewDecoder(in Input) Decoder { return newText(in) }

// Command runs the definition's command; it gets the prompt on standard input.
type Command struct{}

// Info describes it.
func (Command) Info() Info { return Info{Name: catalog.Command.Name} }

// Check refuses nothing: a definition without a command is none.
func (Command) Check(*stint.Definition) error { return nil }

// Prepare takes the command as it is.
func (Command) Prepare(in Input) (Plan, error) {
	return Plan{Argv: in.Definition.Command, Stdin: []byte(in.Prompt)}, nil
}

// NewDecoder takes output as text.
func (Command) NewDecoder(in Input) Decoder { return newText(in) }
