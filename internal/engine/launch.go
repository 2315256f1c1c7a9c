package engine

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/spec"
)

// defaultPath is where commands are looked up inside a sandbox.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launch starts the framework's command.
func (j *job) launch() error {
	f, err := framework.New(&j.a.Spec.Definition)
	if err != nil {
		return err
	}
	prompt := path.Join(sandbox.RunDir, framework.PromptFile)
	plan, err := f.Prepare(framework.Input{Definition: &j.a.Spec.Definition, Prompt: j.a.Run.Prompt, PromptPath: prompt})
	if err != nil {
		return err
	}
	env, err := j.environment(prompt)
	if err != nil {
		return err
	}
	if err := j.connect(); err != nil {
		return err
	}
	j.record.decode(f.NewDecoder())
	j.decoder = j.record.decoder
	j.started = true
	err = j.sandbox.Start(j.ctx, sandbox.Command{
		Argv: plan.Argv, Env: env, Dir: j.a.Spec.Definition.ArtifactPath(), Stdin: bytes.NewReader(plan.Stdin),
		Stdout: j.record.writer(framework.Stdout), Stderr: j.record.writer(framework.Stderr),
	})
	if err != nil {
		return fmt.Errorf("start command: %w", err)
	}
	j.record.system("info", "The agent's command started.", map[string]any{"framework": j.a.Spec.Definition.Framework})
	return nil
}

// environment is the agent's: what every sandbox has, then the image's, the
// definition's, the variables and the secrets, of which later ones win.
func (j *job) environment(prompt string) ([]string, error) {
	s, secrets := j.a.Spec, j.visibleSecrets(j.a.Secrets())
	env := map[string]string{
		"PATH": defaultPath, "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp", "SHELL": "/bin/bash",
		"HOME": sandbox.HomeDir, "USER": "agent", "LOGNAME": "agent", "PWD": s.Definition.ArtifactPath(),
	}
	for _, kv := range j.imageEnv {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "HOME" && name != "PWD" {
			env[name] = value
		}
	}
	trust, err := j.trust()
	if err != nil {
		return nil, err
	}
	maps.Copy(env, trust)
	for name, value := range s.Definition.Environment {
		env[name] = spec.Interpolate(value, s.Variables, secrets)
	}
	maps.Copy(env, j.visibleSecrets(j.a.Stored))
	maps.Copy(env, s.Variables)
	maps.Copy(env, j.visibleSecrets(j.a.Given))
	maps.Copy(env, map[string]string{
		"STINT_RUN_ID": j.a.Run.ID, "STINT_SESSION_ID": j.a.Run.SessionID, "STINT_PROMPT_FILE": prompt,
	})
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out, nil
}
