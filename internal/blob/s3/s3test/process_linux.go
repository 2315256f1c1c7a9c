package s3test

import "syscall"

// attributes returns the attributes of the server's process. The process has its own
// process group, so Ctrl-C in the terminal does not reach it, and the kernel kills it
// when the test binary ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
