package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// dockerIsolation is the name of an isolator that earlier releases had.
const dockerIsolation = "docker"

var errDockerRemoved = errors.New("the Docker isolation was removed; use --isolation namespace, which shares the machine's kernel as Docker does, or --isolation gvisor")

// removed are the settings that only the Docker isolation had. Load refuses
// them from every source.
var removed = []setting{
	{name: "docker-host", set: refuseDocker},
	{name: "docker-runtime", set: refuseDocker},
}

func refuseDocker(*Config, string) error { return errDockerRemoved }

// CheckFlag returns an error that names the replacement if a flag configured
// an isolator that was removed, and nil for any other name, known or not.
func CheckFlag(name string) error {
	if strings.HasPrefix(name, dockerIsolation+"-") {
		return fmt.Errorf("--%s: %w", name, errDockerRemoved)
	}
	return nil
}

// DockerState returns the folder in which earlier releases kept the state of
// the Docker isolation. It usually does not exist.
func (c *Config) DockerState() string { return filepath.Join(c.Data, "sandbox", dockerIsolation) }
