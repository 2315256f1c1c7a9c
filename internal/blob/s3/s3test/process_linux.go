package s3test

import "syscall"

// attributes returns the attributes of the server's process. The process has its own
// process group, so Ctrl-C in the terminal does not reach the process. The kernel kills
// the process when the test binary ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
