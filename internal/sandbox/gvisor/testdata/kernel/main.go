// Command kernel is the smallest program that can run as gVisor's kernel and as
// init. Tests start it, because the test binary may have been built with cgo.
package main

import (
	"fmt"
	"os"

	_ "github.com/stint-dev/stint/internal/sandbox/agentinit" // runs as init under its name
	"github.com/stint-dev/stint/internal/sandbox/gvisor/embedded"
)

func main() {
	embedded.MaybeRunsc()
	fmt.Fprintln(os.Stderr, "kernel: started under an unknown name")
	os.Exit(2)
}
