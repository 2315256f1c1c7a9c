// Package programs answers: which agents' command lines are installed here?
package programs

import (
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
)

// Found is an installed command line and how a sandbox sees it.
type Found struct {
	framework.Program                 // as the sandbox sees it
	Mounts            []sandbox.Mount // that show it there; none where every sandbox sees it
	HostPath          string          // on this machine
}

// SelfPath is where a sandbox sees Stint's own program, if it needs it.
const SelfPath = "/opt/stint/stint"
