package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/sandbox/rootfs"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// openPrograms returns a finder of the programs of agents. In dir, the finder stores
// the programs that are mounted into sandboxes.
func openPrograms(dir string) (*agentcli.Finder, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, fmt.Errorf("find the server's own program: %w", err)
	}
	var known []framework.Info
	for _, f := range registry.All() {
		known = append(known, f.Info())
	}
	return agentcli.New(agentcli.Config{Frameworks: known, Dir: dir, Getenv: os.Getenv, Visible: rootfs.HostShows, Self: self, Now: time.Now}), nil
}

// ownProgram returns the path of this process's program, even if the file at its
// original path was replaced.
func ownProgram() (string, error) {
	const running = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	current, err := os.Stat(running)
	if err != nil {
		return path, nil // not Linux, so there are no sandboxes
	}
	if file, err := os.Stat(path); err == nil && os.SameFile(file, current) {
		return path, nil
	}
	return running, nil
}

// Programs returns, for each framework, whether its program is installed on this
// machine. It does not write files.
func Programs(ctx context.Context) ([]agentcli.Installed, error) {
	f, err := openPrograms("") // nothing is mounted
	if err != nil {
		return nil, err
	}
	return f.All(ctx), nil
}
