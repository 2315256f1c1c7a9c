package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// start prepares the run's files and environment, and starts the framework's command.
func start(ctx context.Context, s *state) (undo, error) {
	in, err := s.input()
	if err != nil {
		return nil, err
	}
	if s.plan, err = s.adapter.Prepare(in); err != nil {
		return nil, err
	}
	if err := s.checkConversation(ctx, in.Resume != nil); err != nil {
		return nil, err
	}
	if err := s.writePlanFiles(s.plan.Files); err != nil {
		return nil, err
	}
	env, err := s.environment(in.PromptPath)
	if err != nil {
		return nil, err
	}
	s.output.Decode(s.adapter.NewDecoder(in), s.plan.Protocol)
	s.stdin.Write(s.plan.Stdin)
	if !s.plan.KeepStdinOpen {
		s.stdin.CloseWrite()
	}
	s.started = true
	recorded := s.startRecording()
	err = s.sandbox.Start(ctx, sandbox.Command{
		Argv: s.plan.Argv, Env: env, Dir: in.WorkDir, Stdin: s.stdin,
		Stdout: s.output.Writer(framework.Stdout), Stderr: s.output.Writer(framework.Stderr),
	})
	began := s.Now()
	recorded()
	if err != nil {
		return nil, s.startFailed(fmt.Errorf("start command: %w", err))
	}
	s.Health.started()
	s.Metrics.RunStarted(began.Sub(s.a.StartedAt.Time))
	metadata := map[string]any{"framework": s.framework()}
	if s.cli.Version != "" {
		metadata["version"] = s.cli.Version
	}
	s.output.System("info", "The agent's command started.", metadata)
	return nil, nil
}

// input returns the input for the framework's method Prepare.
func (s *state) input() (in framework.Input, err error) {
	d := s.definition()
	in = framework.Input{
		Definition: d, Prompt: s.a.Run.Prompt, PromptPath: path.Join(sandbox.RunDir, framework.PromptFile),
		RunDir: sandbox.RunDir, Home: sandbox.HomeDir, WorkDir: d.ArtifactPath(),
		Program: s.cli.Program, Self: agentcli.SelfPath, NewID: uuid.NewString(),
		MCP: s.mcpServers(), Limits: s.a.Plan.Limits, Schema: d.Schema(), Mask: s.masker.Mask,
	}
	if in.Resume, err = s.resume(); err != nil {
		return in, err
	}
	in.Model, err = s.modelEndpoint()
	return in, err
}

// writePlanFiles writes the files of the framework's plan. A previous run may have left
// symbolic links in the home folder; links that lead out of the folder are not followed.
func (s *state) writePlanFiles(files []framework.File) error {
	for _, f := range files {
		dir, name, err := s.hostPath(f.Path)
		if err != nil {
			return err
		}
		if err := writeBelow(dir, name, f); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// hostPath returns the run's folder that contains a path of the sandbox, and the
// path below it.
func (s *state) hostPath(file string) (dir, name string, err error) {
	for at, dir := range map[string]string{sandbox.HomeDir: s.dirs.Home, sandbox.RunDir: s.dirs.Run} {
		if name, ok := strings.CutPrefix(file, at+"/"); ok {
			return dir, name, nil
		}
	}
	return "", "", fmt.Errorf("file %s is neither below the home folder nor among the run's files", file)
}

func writeBelow(dir, name string, f framework.File) error {
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
