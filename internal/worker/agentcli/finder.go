// Package agentcli finds the CLIs of agents that are installed on a worker, and
// makes them available in sandboxes.
//
// A program is looked up on the worker's PATH. A sandbox sees it read-only: at the
// same path as on the host if every sandbox sees that path, otherwise in a mount of
// the program's npm package, otherwise in a mount of the single file.
package agentcli

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
)

// CLI is an installed program and how a sandbox sees it.
type CLI struct {
	framework.Program                   // its path is the path in the sandbox
	Mounts            []sandbox.Mount   // mounts that show the program; none if every sandbox sees it
	HostPath          string            // path on this host; empty if no program was looked up there
	Path              []string          // folders of the sandbox with interpreters, for the front of its PATH
	Env               map[string]string // defaults for the agent's environment
}

// Dir is the folder of a sandbox that contains programs from elsewhere on the
// host.
const Dir = "/run/programs"

// SelfPath is the path of the server's own program in sandboxes that need it.
const SelfPath = Dir + "/stint/stint"

// Names of frameworks that need special treatment.
const (
	assistant  = "assistant"
	acp        = "acp"
	claudeCode = "claude-code"
)

// Config configures a Finder.
type Config struct {
	Frameworks []framework.Info // in the order in which All returns them
	// Dir is a folder for copies of single programs; no other process may use it.
	// Find empties it before its first copy. When Find makes a further copy, it removes
	// the copies that no run can use any more.
	Dir     string
	Getenv  func(string) string    // the worker's environment
	Visible func(path string) bool // reports whether every sandbox sees a host path that contains no symbolic links
	Self    string                 // file with the server's own program
	Now     func() time.Time
}

// Finder finds programs. It is safe for concurrent use.
type Finder struct {
	c      Config
	copies copies

	mu       sync.Mutex // guards versions
	versions map[programID]*versionEntry
}

// New returns a Finder. It does not look up programs yet.
func New(c Config) *Finder {
	return &Finder{c: c, copies: copies{dir: c.Dir, now: c.Now, used: map[string]time.Time{}}, versions: map[programID]*versionEntry{}}
}

// Find returns the program that the framework needs for a definition, or the zero
// CLI if the framework needs none. If the program is missing or too old, the error
// is a *stint.Error that says how to install or update it.
func (f *Finder) Find(ctx context.Context, info framework.Info, d *stint.Definition) (CLI, error) {
	switch {
	case info.Name == assistant:
		return f.self()
	case d.Image != "" && d.Image != "host":
		return inImage(info, d), nil
	case info.Name == acp:
		return f.acpAgent(info, d.Command)
	case len(info.Programs) == 0:
		return CLI{}, nil
	}
	p, err := f.lookUp(info.Name, info.Programs)
	if err != nil {
		return CLI{}, missing(info, err)
	}
	version, err := f.checkVersion(ctx, info, p)
	if err != nil {
		return CLI{}, err
	}
	cli, err := f.mount(info.Name, p)
	cli.Version = version
	return cli, err
}

// inImage returns the program of a definition with an image. A name without a slash
// is looked up on the PATH inside the image.
func inImage(info framework.Info, d *stint.Definition) (cli CLI) {
	if info.Name == acp && len(d.Command) > 0 {
		cli.Program.Path = d.Command[0]
	} else if len(info.Programs) > 0 {
		cli.Program.Path = info.Programs[0]
	}
	return cli
}

// acpAgent returns the program of a definition's command. A name without a slash is
// looked up on the worker's PATH. A path refers to a file in the sandbox, unless the
// framework's variable names a program of the host.
func (f *Finder) acpAgent(info framework.Info, command []string) (cli CLI, err error) {
	if len(command) == 0 {
		return CLI{}, nil
	}
	name := command[0]
	if strings.Contains(name, "/") && f.c.Getenv(variable(info.Name)) == "" {
		cli.Program.Path = name
	} else {
		p, err := f.lookUp(info.Name, []string{name})
		if err != nil {
			return CLI{}, missingAgent(name, err)
		}
		if cli, err = f.mount(info.Name, p); err != nil {
			return CLI{}, err
		}
	}
	if strings.HasPrefix(path.Base(name), "claude") {
		err = f.addClaudeCode(&cli)
	}
	return cli, err
}

// addClaudeCode adds Claude Code, if it is installed, to an agent that drives
// it. The agent's own package may not include Claude Code for this platform.
func (f *Finder) addClaudeCode(cli *CLI) error {
	i := slices.IndexFunc(f.c.Frameworks, func(info framework.Info) bool { return info.Name == claudeCode })
	if i < 0 {
		return nil
	}
	p, err := f.lookUp(claudeCode, f.c.Frameworks[i].Programs)
	if err != nil {
		return nil //nolint:nilerr // the agent may not need it
	}
	claude, err := f.mount(claudeCode, p)
	if err != nil {
		return err
	}
	for _, m := range claude.Mounts {
		if !slices.ContainsFunc(cli.Mounts, func(have sandbox.Mount) bool { return have.Target == m.Target }) {
			cli.Mounts = append(cli.Mounts, m)
		}
	}
	cli.Path = append(cli.Path, claude.Path...)
	cli.Env = map[string]string{"CLAUDE_CODE_EXECUTABLE": claude.Program.Path}
	return nil
}

// self returns the program of this process.
func (f *Finder) self() (CLI, error) {
	m, err := f.copies.mount(f.c.Self, SelfPath)
	if err != nil {
		return CLI{}, err
	}
	return CLI{Program: framework.Program{Path: SelfPath}, HostPath: f.c.Self, Mounts: []sandbox.Mount{m}}, nil
}
