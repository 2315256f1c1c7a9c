package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dockerIsolation is the name of an isolator of earlier releases.
const dockerIsolation = "docker"

var errDockerRemoved = errors.New("the Docker isolation was removed; use --isolation namespace, which shares the machine's kernel as Docker does, or --isolation gvisor")

// removed contains the settings of the Docker isolation. Load returns an error if any
// source contains one of them.
var removed = []Setting{
	{Name: "docker-host", set: refuseDocker},
	{Name: "docker-runtime", set: refuseDocker},
}

func refuseDocker(string) error { return errDockerRemoved }

// CheckFlag returns an error if name is the name of a flag of the removed Docker
// isolation, and nil otherwise. The error names replacements.
func CheckFlag(name string) error {
	if strings.HasPrefix(name, dockerIsolation+"-") {
		return fmt.Errorf("--%s: %w", name, errDockerRemoved)
	}
	return nil
}

// DockerState returns the folder in which an earlier release kept the state of
// the Docker isolation. It returns "" if that isolation was never used: the folder does
// not exist, or contains only empty folders, which earlier releases created at every
// start.
func (c *Config) DockerState() string {
	dir := filepath.Join(c.Data, "sandbox", dockerIsolation)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if inside, err := os.ReadDir(filepath.Join(dir, e.Name())); err != nil || len(inside) > 0 {
			return dir // a file, or a folder with content
		}
	}
	return ""
}
