// Package agentcli answers: which agents' command lines are installed here?
//
// They are looked up on the worker as its operator would, and shown to
// sandboxes read-only: as they lie where every sandbox sees them, else with the
// package that they belong to, else alone.
package agentcli

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
)

// CLI is an installed command line and how a sandbox sees it.
type CLI struct {
	framework.Program                 // as the sandbox sees it
	Mounts            []sandbox.Mount // that show it there; none where every sandbox sees it
	HostPath          string          // on this machine; empty where nothing was looked up
	// Path are folders of the sandbox that go before its PATH: those of
	// interpreters.
	Path []string
	// Env goes below what the definition and the run say.
	Env map[string]string
}

// Dir is the folder of a sandbox below which it sees what is not part of its
// system.
const Dir = "/run/programs"

// SelfPath is where a sandbox sees Stint's own program, if it needs it.
const SelfPath = Dir + "/stint/stint"

// Names of frameworks that are treated in their own way.
const (
	assistant  = "assistant"
	acp        = "acp"
	claudeCode = "claude-code"
)

// Config is what a Finder needs.
type Config struct {
	// Frameworks are those that there are, in the order of lists.
	Frameworks []framework.Info
	// Dir is a folder of the server, not made yet or this Finder's own, for
	// programs that are shown alone. What an earlier life of the server left in
	// it is removed when the first is kept; a program that was replaced, once no
	// run can be left that was shown it.
	Dir string
	// Getenv is the worker's environment.
	Getenv func(string) string
	// Visible tells whether every sandbox sees a path of the host, one without
	// links, as it is.
	Visible func(path string) bool
	// Self is a file with Stint's own program.
	Self string
	Now  func() time.Time
}

// Finder finds programs. It is safe for concurrent use.
type Finder struct {
	c Config

	asking    sync.Mutex // guards what follows; never held while a program is asked
	versions  map[identity]answer
	questions map[identity]*question // that are being asked

	keeping sync.Mutex // guards what follows; held while a program is linked or copied
	cleared bool
	shown   map[string]time.Time // when a folder of a kept program was last given out
}

// New makes a Finder. It looks for nothing yet.
func New(c Config) *Finder {
	return &Finder{c: c, versions: map[identity]answer{}, questions: map[identity]*question{}, shown: map[string]time.Time{}}
}

// identity tells a program from what it was before it was replaced.
type identity struct {
	path     string
	size     int64
	modified time.Time
}

// Find gives what the framework needs installed for a definition. The error is
// a *stint.Error that says what to install, where that is what is missing.
func (f *Finder) Find(ctx context.Context, of framework.Info, d *stint.Definition) (CLI, error) {
	switch {
	case of.Name == assistant:
		return f.self()
	case d.Image != "" && d.Image != "host":
		return inImage(of, d), nil
	case of.Name == acp:
		return f.agent(of, d.Command)
	case len(of.Programs) == 0:
		return CLI{}, nil
	}
	p, err := f.lookUp(of.Name, of.Programs)
	if err != nil {
		return CLI{}, missing(of, err)
	}
	version, err := f.checked(ctx, of, p)
	if err != nil {
		return CLI{}, err
	}
	found, err := f.show(of.Name, p)
	found.Version = version
	return found, err
}

// inImage leaves it to the image, whose PATH decides.
func inImage(of framework.Info, d *stint.Definition) (found CLI) {
	if of.Name == acp && len(d.Command) > 0 {
		found.Program.Path = d.Command[0]
	} else if len(of.Programs) > 0 {
		found.Program.Path = of.Programs[0]
	}
	return found
}

// agent finds the program of a definition's command. One that is named by its
// path is the sandbox's own: of the host nothing is shown that the operator has
// not put on the worker's PATH.
func (f *Finder) agent(of framework.Info, command []string) (CLI, error) {
	if len(command) == 0 {
		return CLI{}, nil
	}
	name := command[0]
	var found CLI
	if strings.Contains(name, "/") && f.c.Getenv(variable(of.Name)) == "" {
		found.Program.Path = name
	} else {
		p, err := f.lookUp(of.Name, []string{name})
		if err != nil {
			return CLI{}, missingAgent(name, err)
		}
		if found, err = f.show(of.Name, p); err != nil {
			return CLI{}, err
		}
	}
	if strings.HasPrefix(path.Base(name), "claude") {
		return f.withClaude(found)
	}
	return found, nil
}

// withClaude shows Claude Code beside an agent that drives it, if it is
// installed: the agent's own package may have none that runs here.
func (f *Finder) withClaude(found CLI) (CLI, error) {
	for _, of := range f.c.Frameworks {
		if of.Name != claudeCode {
			continue
		}
		p, err := f.lookUp(of.Name, of.Programs)
		if err != nil {
			continue // it may do without
		}
		claude, err := f.show(of.Name, p)
		if err != nil {
			return CLI{}, err
		}
		found.add(claude)
		found.Env = map[string]string{"CLAUDE_CODE_EXECUTABLE": claude.Program.Path}
	}
	return found, nil
}

// add takes over what shows another program.
func (o *CLI) add(other CLI) {
	for _, m := range other.Mounts {
		if !contains(o.Mounts, m.Target) {
			o.Mounts = append(o.Mounts, m)
		}
	}
	o.Path = append(o.Path, other.Path...)
}

func contains(mounts []sandbox.Mount, target string) bool {
	for _, m := range mounts {
		if m.Target == target {
			return true
		}
	}
	return false
}

// self shows the program that runs now.
func (f *Finder) self() (CLI, error) {
	dir, err := f.keep(f.c.Self, path.Base(SelfPath))
	if err != nil {
		return CLI{}, err
	}
	return CLI{
		Program: framework.Program{Path: SelfPath}, HostPath: f.c.Self,
		Mounts: []sandbox.Mount{{Source: dir, Target: path.Dir(SelfPath)}},
	}, nil
}
