// Package assistant drives Stint's own agent.
//
// The agent is the stint binary itself, started with a special first argument.
// Package protocol defines its input and output.
package assistant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// configFile is the name of the assistant's configuration in the directory of
// run files.
const configFile = "assistant.json"

// Assistant drives the built-in agent.
type Assistant struct{}

// Info returns the properties of the framework. The assistant needs no installed
// program.
func (Assistant) Info() framework.Info {
	return framework.Info{Name: catalog.Assistant.Name, Capabilities: stint.Capabilities{
		Model: true, Tools: true, Conversation: true, MCP: true, Usage: true, Schema: true, Interrupt: true,
	}}
}

// Check returns an error if the definition has a provider but no model, or an
// output schema but no provider.
func (Assistant) Check(d *stint.Definition) error {
	switch {
	case catalog.ModelURL(d) != "" && d.Model == "":
		return stint.MissingParam("model", "'model' is required: the assistant asks the provider for a model by its name.")
	case catalog.ModelURL(d) == "" && d.Schema() != nil:
		return stint.InvalidParam("output.schema", "Without a model the assistant returns no structured result. Set 'provider' and 'model', or leave out 'output.schema'.")
	}
	return nil
}

// Prepare returns a plan that starts the stint binary with a configuration
// file.
func (Assistant) Prepare(in framework.Input) (framework.Plan, error) {
	config, err := json.Marshal(configOf(in))
	if err != nil {
		return framework.Plan{}, fmt.Errorf("write the assistant's configuration: %w", err)
	}
	prompt, err := json.Marshal(protocol.Input{Type: protocol.InputPrompt, Text: in.FullPrompt()})
	if err != nil {
		return framework.Plan{}, fmt.Errorf("write the assistant's prompt: %w", err)
	}
	file := path.Join(in.RunDir, configFile)
	return framework.Plan{
		Argv:  []string{in.Self, protocol.Verb, file},
		Files: []framework.File{{Path: file, Content: config}},
		Stdin: append(prompt, '\n'), KeepStdinOpen: true, Protocol: true,
		State: framework.State{Keep: []string{protocol.SessionDir}, Check: framework.CheckLogs(checkSession)},
	}, nil
}

// NewDecoder returns a decoder for the assistant's output.
func (Assistant) NewDecoder(framework.Input) framework.Decoder {
	return newDecoder()
}

func configOf(in framework.Input) protocol.Config {
	d := in.Definition
	c := protocol.Config{
		Provider: stint.ProviderOffline, Model: d.Model, Instructions: d.Instructions,
		Session: path.Join(in.Home, protocol.SessionDir, protocol.SessionFile), NewID: in.NewID,
		Resume: in.ResumeID(), WorkDir: in.WorkDir, MaxTurns: in.Limits.MaxTurns, Schema: in.Schema,
	}
	if in.Model != nil {
		c.Provider, c.URL, c.Key = in.Model.Type, in.Model.URL, in.Model.Key
	}
	for _, name := range slices.Sorted(maps.Keys(d.Volumes)) {
		v := d.Volumes[name]
		c.Volumes = append(c.Volumes, protocol.Volume{Name: name, Path: cmp.Or(v.Path, "/volumes/"+name), Writable: v.Writable})
	}
	for _, m := range in.MCP {
		c.MCP = append(c.MCP, protocol.MCPServer(m))
	}
	return c
}
