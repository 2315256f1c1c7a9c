package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

func findOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return owner{}, fmt.Errorf("PostgreSQL does not run as root, and its user is missing (run make deps): %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return owner{}, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return owner{other: true, uid: uid, gid: gid}, err
}

// attributes returns the attributes of a process that runs as the owner and receives
// SIGQUIT when the thread that started it ends. The process has its own process group,
// so that Ctrl-C does not interrupt it.
func (o owner) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if o.other {
		a.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return a
}
