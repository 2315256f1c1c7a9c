// Package codex drives Codex.
//
// Codex runs without a terminal. It reads the prompt from standard input until
// end-of-file, and writes lines of JSON. It reports the tokens of the whole
// conversation, so the decoder subtracts the tokens of earlier runs.
package codex

import (
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
)

// keyVariable is the environment variable with the key of the model's provider.
const keyVariable = "STINT_MODEL_KEY"

// Framework drives Codex.
type Framework struct{}

// Info returns the properties of the framework.
func (Framework) Info() framework.Info {
	return framework.Info{
		Name: catalog.Codex.Name, Programs: []string{"codex"}, MinVersion: "0.160.0", Install: "npm install -g @openai/codex",
		Capabilities: stint.Capabilities{Model: true, Tools: true, Conversation: true, MCP: true, Usage: true, Schema: true},
	}
}

// Check returns an error if the provider's type is not stint.ProviderResponses.
func (Framework) Check(d *stint.Definition) error { return catalog.Codex.CheckProvider(d) }

// Prepare returns a plan that starts Codex and sends the prompt.
func (Framework) Prepare(in framework.Input) (framework.Plan, error) {
	home := in.Home + "/.codex"
	p := framework.Plan{
		Argv: append(framework.ProgramArgv(in, "codex"), arguments(in)...), Env: map[string]string{"CODEX_HOME": home},
		Files: []framework.File{{Path: home + "/config.toml", Content: configuration(in)}},
		Stdin: []byte(in.FullPrompt()), Protocol: true,
		State: framework.State{Keep: []string{".codex/sessions"}, Check: framework.CheckLogs(jsonlines.CheckLog)},
	}
	if in.Model != nil {
		p.Env[keyVariable] = in.Model.Key
	}
	if text := in.Definition.Instructions; text != "" {
		p.Files = append(p.Files, framework.File{Path: home + "/AGENTS.md", Content: []byte(text)})
	}
	return p, nil
}

// NewDecoder returns a decoder for the output of Codex.
func (Framework) NewDecoder(in framework.Input) framework.Decoder { return newDecoder(in) }

func arguments(in framework.Input) []string {
	args := []string{"exec"}
	id := in.ResumeID()
	if id != "" {
		args = append(args, "resume")
	}
	args = append(args, "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
	if in.Definition.Model != "" {
		args = append(args, "-m", in.Definition.Model)
	}
	if id != "" {
		args = append(args, id)
	}
	return append(args, "-")
}
