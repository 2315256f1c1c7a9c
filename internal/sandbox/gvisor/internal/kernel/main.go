// Command kernel is the least program that can be the kernel and the warden of
// a sandbox. Tests, whose own binary may have been built with cgo, start it.
package main

import (
	"fmt"
	"os"

	_ "github.com/stint-dev/stint/internal/sandbox/agentinit" // it becomes one by its name
	"github.com/stint-dev/stint/internal/sandbox/gvisor/embedded"
)

func main() {
	embedded.MaybeRunsc()
	fmt.Fprintln(os.Stderr, "kernel: started under no name that it knows")
	os.Exit(2)
}
