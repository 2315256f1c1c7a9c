//go:build linux

package dockertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Guest builds a static warden into a folder and gives its path.
func Guest(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "guest")
	c := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/stint-dev/stint/internal/sandbox/docker/dockertest/guest")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building a warden: %w\n%s", err, out)
	}
	return path, nil
}
