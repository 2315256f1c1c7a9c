package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// openPrograms looks for agents' programs as this process would start them.
// Those that sandboxes are shown alone lie in the folder.
func openPrograms(dir string) (*agentcli.Finder, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, fmt.Errorf("find the server's own program: %w", err)
	}
	var known []framework.Info
	for _, f := range registry.All() {
		known = append(known, f.Info())
	}
	return agentcli.New(agentcli.Config{Frameworks: known, Dir: dir, Getenv: os.Getenv, Visible: shownEverywhere, Self: self, Now: time.Now}), nil
}

// ownProgram is the file that this process was started from, also when another
// lies at its path by now.
func ownProgram() (string, error) {
	const running = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	now, err := os.Stat(running)
	if err != nil {
		return path, nil // no Linux, so there are no sandboxes either
	}
	if there, err := os.Stat(path); err == nil && os.SameFile(there, now) {
		return path, nil
	}
	return running, nil
}

// Programs tells of every framework whether it works on this machine. It
// changes nothing.
func Programs(ctx context.Context) ([]agentcli.Installed, error) {
	f, err := openPrograms("") // nothing is shown to anybody
	if err != nil {
		return nil, err
	}
	return f.All(ctx), nil
}
