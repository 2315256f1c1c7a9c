//go:build linux && (amd64 || arm64)

package namespace

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryNote is for hosts where no group holds the limit on memory.
const memoryNote = "The limit on memory is watched here, and does not hold against files in memory that no process has mapped (memfd_create, System V segments): let a control group be delegated (systemd: Delegate=yes)."

// hostDumps tells whether the kernel starts a program of the host's for an
// agent's core, "" if not.
func coreDumpNote() string {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	var l unix.Rlimit
	if err != nil || unix.Getrlimit(unix.RLIMIT_CORE, &l) != nil {
		return ""
	}
	return coreDumpNoteFor(string(pattern), l.Max)
}

// dumpsNote goes by the pattern, and by the server's limit, above which none of
// a sandbox's can be: see warden.ForbidDumps.
func coreDumpNoteFor(pattern string, most uint64) string {
	if !strings.HasPrefix(pattern, "|") || most > 0 {
		return ""
	}
	return "An agent that crashes starts the host's program for core dumps (kernel.core_pattern), as the server's own limit of core dumps is 0: start the server with a limit of 1 or more (systemd: LimitCORE=infinity), which sandboxes lower to none."
}
