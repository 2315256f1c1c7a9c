package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/stint-dev/stint/internal/sandbox"
)

func init() {
	programsByName["attached"] = attachedProgram
	programsByName["shm"] = shmProgram
}

// attachedProgram writes the content of attached files to stdout, checks that
// read-only folders cannot be written, and writes to a writable mount.
func attachedProgram(g Program, _ []string) error {
	read := []string{"/data/f", sandbox.WorkspaceDir + "/in/put/f", "/mnt/out/deep/f", "/mnt/out/deep/again/f", sandbox.WorkspaceDir + "/later"}
	if err := readProgram(g, read); err != nil {
		return err
	}
	for _, dir := range []string{"/data", sandbox.WorkspaceDir + "/in/put", "/mnt/out/deep/again", "/mnt/out", "/mnt", ""} {
		if err := os.WriteFile(dir+"/x", nil, 0o644); err == nil {
			return fmt.Errorf("%s can be written", dir)
		}
	}
	return writeProgram(g, []string{"/mnt/out/deep/x", "made"})
}

// shmProgram writes args[0] megabytes to /dev/shm. Exit code 9 means that /dev/shm is
// full.
func shmProgram(_ Program, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	f, err := os.Create("/dev/shm/x")
	if err != nil {
		return err
	}
	defer f.Close()
	for range n {
		if _, err := f.Write(make([]byte, 1<<20)); errors.Is(err, syscall.ENOSPC) {
			return exitCode(9)
		} else if err != nil {
			return err
		}
	}
	return nil
}
