package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// defaultPath is where commands are looked up inside a sandbox.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launch starts the framework's command.
func (j *job) launch() error {
	in, err := j.input()
	if err != nil {
		return err
	}
	if j.plan, err = j.framework.Prepare(in); err != nil {
		return err
	}
	if err := j.checkConversation(in.Resume != nil); err != nil {
		return err
	}
	if err := j.furnishFiles(j.plan.Files); err != nil {
		return err
	}
	env, err := j.environment(in.PromptPath)
	if err != nil {
		return err
	}
	if err := j.connect(); err != nil {
		return err
	}
	j.record.decode(j.framework.NewDecoder(in), j.plan.Protocol)
	j.stdin.write(j.plan.Stdin)
	if !j.plan.KeepStdinOpen {
		j.stdin.hangUp()
	}
	j.started = true
	err = j.sandbox.Start(j.ctx, sandbox.Command{
		Argv: j.plan.Argv, Env: env, Dir: in.WorkDir, Stdin: j.stdin,
		Stdout: j.record.writer(framework.Stdout), Stderr: j.record.writer(framework.Stderr),
	})
	if err != nil {
		return fmt.Errorf("start command: %w", err)
	}
	metadata := map[string]any{"framework": j.a.Plan.Definition.Framework}
	if j.program.Version != "" {
		metadata["version"] = j.program.Version
	}
	j.record.system("info", "The agent's command started.", metadata)
	return nil
}

// input is what the framework prepares from.
func (j *job) input() (framework.Input, error) {
	d := &j.a.Plan.Definition
	in := framework.Input{
		Definition: d, Prompt: j.a.Run.Prompt, PromptPath: path.Join(sandbox.RunDir, framework.PromptFile),
		RunDir: sandbox.RunDir, Home: sandbox.HomeDir, WorkDir: d.ArtifactPath(),
		Program: j.program.Program, Self: agentcli.SelfPath, NewID: uuid.NewString(), Limits: j.a.Plan.Limits, Schema: d.Schema(), Mask: j.record.masker.Mask,
	}
	var err error
	if in.Resume, err = j.resume(); err != nil {
		return in, err
	}
	if in.Model, err = j.model(); err != nil {
		return in, err
	}
	in.MCP, err = j.mcpServers()
	return in, err
}

// furnishFiles writes the files of the framework's plan. The folders are the
// run's own and no agent was in them yet but through what it left in its home:
// links in there are not followed out of it.
func (j *job) furnishFiles(files []framework.File) error {
	for _, f := range files {
		dir, name, err := j.inside(f.Path)
		if err != nil {
			return err
		}
		if err := writeInside(dir, name, f); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// inside finds the run's folder that holds a path of the sandbox.
func (j *job) inside(file string) (dir, name string, err error) {
	for at, dir := range map[string]string{sandbox.HomeDir: j.place.Home, sandbox.RunDir: j.place.Run} {
		if name, ok := strings.CutPrefix(file, at+"/"); ok {
			return dir, name, nil
		}
	}
	return "", "", fmt.Errorf("file %s lies neither below home nor among the run's files", file)
}

func writeInside(dir, name string, f framework.File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mode := fs.FileMode(f.Mode).Perm()
	if mode == 0 {
		mode = 0o644
	}
	return root.WriteFile(name, f.Content, mode)
}

// environment is the agent's: what every sandbox has, then the image's, the
// definition's, the variables and the secrets, of which later ones win.
func (j *job) environment(prompt string) ([]string, error) {
	s, secrets := j.a.Plan, j.visibleSecrets(j.a.Secrets())
	env := map[string]string{
		"PATH": defaultPath, "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp", "SHELL": "/bin/bash",
		"HOME": sandbox.HomeDir, "USER": "agent", "LOGNAME": "agent", "PWD": s.Definition.ArtifactPath(),
	}
	for _, kv := range j.imageEnv {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "HOME" && name != "PWD" {
			env[name] = value
		}
	}
	if len(j.program.Path) > 0 {
		env["PATH"] = strings.Join(append(slices.Clone(j.program.Path), env["PATH"]), ":")
	}
	maps.Copy(env, j.program.Env)
	trust, err := j.trust()
	if err != nil {
		return nil, err
	}
	maps.Copy(env, trust)
	for name, value := range s.Definition.Environment {
		env[name] = definition.Interpolate(value, s.Variables, secrets)
	}
	maps.Copy(env, j.visibleSecrets(j.a.Stored))
	maps.Copy(env, s.Variables)
	maps.Copy(env, j.visibleSecrets(j.a.Given))
	maps.Copy(env, j.plan.Env)
	maps.Copy(env, map[string]string{
		"STINT_RUN_ID": j.a.Run.ID, "STINT_SESSION_ID": j.a.Run.SessionID, "STINT_PROMPT_FILE": prompt,
	})
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out, nil
}
