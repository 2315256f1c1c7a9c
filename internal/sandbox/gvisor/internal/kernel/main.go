// Command kernel is the least program that can be the kernel and the warden of
// a sandbox. Tests, whose own binary may have been built with cgo, start it.
package main

import (
	"fmt"
	"os"

	"github.com/stint-dev/stint/internal/sandbox/gvisor/embedded"
	_ "github.com/stint-dev/stint/internal/sandbox/warden" // it becomes one by its name
)

func main() {
	embedded.MaybeRunsc()
	fmt.Fprintln(os.Stderr, "kernel: started under no name that it knows")
	os.Exit(2)
}
