package s3test

import "syscall"

// attributes put the process out of reach of the terminal's Ctrl-C, and end it
// at once when we die.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
