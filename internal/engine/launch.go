package engine

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/spec"
)

// defaultPath is where commands are looked up inside a sandbox.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// prepareSandbox builds the sandbox; no foreign code runs yet.
func (j *job) prepareSandbox(mounts []sandbox.Mount) error {
	begin := j.e.c.Now()
	scratch, given := filepath.Join(j.dir, "scratch"), filepath.Join(j.dir, "run")
	for _, dir := range []string{scratch, given} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(given, framework.PromptFile), []byte(j.a.Run.Prompt), 0o644); err != nil {
		return fmt.Errorf("write prompt: %w", err)
	}
	box, err := j.e.c.Driver.Prepare(j.ctx, sandbox.Spec{
		ID: j.a.Run.ID, Resources: j.resources(), Home: j.home, Workspace: j.workspace, Scratch: scratch, Run: given,
		Mounts: mounts,
	})
	if err != nil {
		return fmt.Errorf("prepare sandbox: %w", err)
	}
	j.sandbox = box
	j.clean.add(box.Close)
	metadata := j.since(begin)
	metadata["driver"] = j.e.c.Driver.Name()
	j.record.system("info", "The sandbox is ready.", metadata)
	return nil
}

func (j *job) resources() sandbox.Resources {
	r := j.e.c.Resources
	d := j.a.Spec.Definition.Resources
	if d == nil {
		return r
	}
	if d.CPU > 0 {
		r.CPU = d.CPU
	}
	if d.Memory > 0 {
		r.Memory = int64(d.Memory)
	}
	if d.Disk > 0 {
		r.Disk = int64(d.Disk)
	}
	if d.Pids > 0 {
		r.Pids = d.Pids
	}
	return r
}

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
	j.record.decode(f.NewDecoder())
	j.decoder = j.record.decoder
	j.started = true
	err = j.sandbox.Start(j.ctx, sandbox.Command{
		Argv: plan.Argv, Env: j.environment(prompt), Dir: j.a.Spec.Definition.ArtifactPath(), Stdin: bytes.NewReader(plan.Stdin),
		Stdout: j.record.writer(framework.Stdout), Stderr: j.record.writer(framework.Stderr),
	})
	if err != nil {
		return fmt.Errorf("start command: %w", err)
	}
	j.record.system("info", "The agent's command started.", map[string]any{"framework": j.a.Spec.Definition.Framework})
	return nil
}

// environment is the agent's: what every sandbox has, then the definition's,
// the variables and the secrets, of which later ones win.
func (j *job) environment(prompt string) []string {
	s, secrets := j.a.Spec, j.visibleSecrets(j.a.Secrets())
	env := map[string]string{
		"PATH": defaultPath, "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp", "SHELL": "/bin/bash",
		"HOME": sandbox.HomeDir, "USER": "agent", "LOGNAME": "agent", "PWD": s.Definition.ArtifactPath(),
	}
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
	return out
}
