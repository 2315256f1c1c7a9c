//go:build linux && (amd64 || arm64)

package namespace

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryNote is reported if no control group enforces the memory limit.
const memoryNote = "The memory limit is checked at intervals here and does not include files in memory that no process has mapped (memfd_create, System V segments): delegate a control group (systemd: Delegate=yes)."

// coreDumpNote returns a sentence if the kernel starts a host program for core
// dumps of agents, and "" otherwise.
func coreDumpNote() string {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	var l unix.Rlimit
	if err != nil || unix.Getrlimit(unix.RLIMIT_CORE, &l) != nil {
		return ""
	}
	return coreDumpNoteFor(string(pattern), l.Max)
}

// coreDumpNoteFor is coreDumpNote for a core pattern and the server's hard limit of
// core dumps. If the hard limit is 0, a sandbox cannot set the limit of 1 byte that
// prevents such dumps: see agentinit.DisableCoreDumps.
func coreDumpNoteFor(pattern string, most uint64) string {
	if !strings.HasPrefix(pattern, "|") || most > 0 {
		return ""
	}
	return "An agent that crashes starts the host's program for core dumps (kernel.core_pattern), as the server's own limit of core dumps is 0: start the server with a limit of 1 or more (systemd: LimitCORE=infinity), which sandboxes lower to none."
}
