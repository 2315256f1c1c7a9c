// Package acp answers: how is an agent driven that speaks the Agent Client
// Protocol?
//
// The agent and its client talk in lines of JSON-RPC 2.0 over standard input
// and output. The client is the decoder: what the agent writes brings it to the
// next step, and what it answers goes back through the steps that it returns.
package acp

import (
	"maps"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// protocolVersion is the one that is spoken.
const protocolVersion = 1

// Framework drives any agent of the protocol: the definition's command starts
// it.
type Framework struct{}

// Info describes it.
func (Framework) Info() framework.Info {
	return framework.Info{
		Name: catalog.ACP.Name,
		Capabilities: stint.Capabilities{
			Model: true, Tools: true, Conversation: true, MCP: true, Usage: true, Schema: true, Interrupt: true,
		},
	}
}

// Check refuses a provider that no such agent can ask.
func (Framework) Check(d *stint.Definition) error {
	if catalog.ProviderType(d) == stint.ProviderOffline {
		return stint.InvalidParam("provider.type", "The framework 'acp' cannot use the provider 'offline', which is the assistant's own. Use another provider, or the framework 'assistant'.")
	}
	return nil
}

// Prepare starts the definition's command and greets it.
func (Framework) Prepare(in framework.Input) (framework.Plan, error) {
	d := in.Definition
	if len(d.Command) == 0 {
		return framework.Plan{}, stint.MissingParam("command", "The framework 'acp' needs 'command', a list of the program and its arguments.")
	}
	argv := append([]string(nil), d.Command...)
	if in.Program.Path != "" {
		argv[0] = in.Program.Path
	}
	known := vendorOf(d.Command)
	env := maps.Clone(known.env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, modelEnv(in.Model, d.Model))
	return framework.Plan{
		Argv: argv, Env: env, Stdin: greeting(), KeepStdinOpen: true, Protocol: true, State: known.state,
	}, nil
}

// NewDecoder gives the client of one run.
func (Framework) NewDecoder(in framework.Input) framework.Decoder { return newClient(in) }

// modelEnv tells an agent where its model is, in the variables that clients of
// the provider's interface read.
func modelEnv(at *framework.Endpoint, model string) map[string]string {
	if at == nil {
		return nil
	}
	prefix := "OPENAI_"
	if at.Type == stint.ProviderAnthropic {
		prefix = "ANTHROPIC_"
	}
	env := map[string]string{prefix + "BASE_URL": at.URL, prefix + "API_KEY": at.Key}
	if model != "" {
		env[prefix+"MODEL"] = model
	}
	return env
}
