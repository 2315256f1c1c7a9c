//go:build linux && (amd64 || arm64)

// Command guest is a warden and nothing else, for containers of tests: test
// programs are not always linked statically.
package main

import (
	"os"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

func main() {
	agentinit.MaybeGuest()
	os.Exit(2)
}
