package egress_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// internet maps the host names of the test servers to their addresses.
var internet = map[string]string{
	"files.example.com":  "93.184.215.14",
	"api.example.com":    "93.184.215.15",
	"pypi.example.org":   "93.184.215.16",
	"npm.example.org":    "93.184.215.17",
	"evil.example.net":   "93.184.215.18",
	"bank.example.com":   "93.184.215.19",
	"rebind.example.net": "192.168.77.1", // a public name with a private address
}

const insideEnv = "STINT_E2E_EGRESS_INSIDE"

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(requirement.SkipPackage("the user is not root, who can create the network of these tests"))
	}
	if os.Getenv(insideEnv) == "" {
		os.Exit(runInNamespaces())
	}
	if err := createInternet(); err != nil {
		fmt.Fprintln(os.Stderr, "creating the network of the tests:", err)
		os.Exit(1)
	}
	installation.Main(m)
}

// runInNamespaces runs the test binary again in new network and mount namespaces, and
// returns its exit code.
func runInNamespaces() int {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), insideEnv+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "running the tests in namespaces:", err)
		return 1
	}
	return 0
}

// createInternet routes the addresses in internet to the loopback interface. It
// replaces /etc/hosts and /etc/resolv.conf in the mount namespace, so that the names
// resolve to these addresses.
func createInternet() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	errs := []error{netlink.LinkSetUp(lo)}
	hosts := "127.0.0.1 localhost\n"
	for name, ip := range internet {
		address, err := netlink.ParseAddr(ip + "/32")
		if err != nil {
			return err
		}
		// Add a route, not an address of the interface, because the egress proxy
		// treats the addresses of the interfaces of this machine as private.
		errs = append(errs, netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: address.IPNet, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}))
		hosts += ip + " " + name + "\n"
	}
	dir, err := os.MkdirTemp("", "stint-etc-")
	if err != nil {
		return err
	}
	errs = append(errs, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for name, text := range map[string]string{"hosts": hosts, "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"} {
		path := filepath.Join(dir, name)
		errs = append(errs, os.WriteFile(path, []byte(text), 0o644), unix.Mount(path, "/etc/"+name, "", unix.MS_BIND, ""))
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...) // the mounts keep the files
}
