// Package acp drives agents that implement the Agent Client Protocol.
//
// Agent and client exchange JSON-RPC 2.0 messages, one per line, over the agent's
// standard input and output. The framework.Decoder of this package is the client.
// Each message of the agent advances the client's state. The client's answers are
// returned in framework.Step.Send.
package acp

import (
	"maps"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// protocolVersion is the supported version of the protocol.
const protocolVersion = 1

// Framework drives any agent that implements the protocol. The definition's
// command starts the agent.
type Framework struct{}

// Info returns the properties of the framework.
func (Framework) Info() framework.Info {
	return framework.Info{
		Name: catalog.ACP.Name,
		Capabilities: stint.Capabilities{
			Model: true, Tools: true, Conversation: true, MCP: true, Usage: true, Schema: true, Interrupt: true,
		},
	}
}

// Check returns an error for the offline provider, which only the assistant
// supports.
func (Framework) Check(d *stint.Definition) error {
	if catalog.ProviderType(d) == stint.ProviderOffline {
		return stint.InvalidParam("provider.type", "The framework 'acp' cannot use the provider 'offline', which is the assistant's own. Use another provider, or the framework 'assistant'.")
	}
	return nil
}

// Prepare returns a plan that starts the definition's command and sends the
// initialize request. It returns an error if the definition has no command.
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
		Argv: argv, Env: env, Stdin: initializeRequest(), KeepStdinOpen: true, Protocol: true, State: known.state,
	}, nil
}

// NewDecoder returns a decoder that acts as the protocol's client for one run.
func (Framework) NewDecoder(in framework.Input) framework.Decoder { return newClient(in) }

// modelEnv returns the environment variables from which API clients read the
// model's address, key, and name. It returns nil if at is nil.
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
