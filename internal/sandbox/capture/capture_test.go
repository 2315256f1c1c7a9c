//go:build linux

package capture_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/capture"
	"github.com/stint-dev/stint/internal/sandbox/capture/hostend"
)

// dialEnv is an environment variable. If it is set, the test binary runs no tests, but
// connects to the addresses in its arguments.
const dialEnv = "STINT_CAPTURE_DIAL"

func TestMain(m *testing.M) {
	if os.Getenv(dialEnv) != "" {
		os.Exit(dial())
	}
	if os.Geteuid() != 0 {
		os.Exit(asRoot())
	}
	goleak.VerifyTestMain(m)
}

// asRoot runs the tests again as root of a user namespace.
func asRoot() int {
	one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: one(os.Geteuid()), GidMappings: one(os.Getegid())}
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func dial() int {
	for _, a := range os.Args[1:] {
		c, err := net.Dial("tcp4", a)
		if err != nil {
			fmt.Printf("%s refused\n", a)
			continue
		}
		received, _ := io.ReadAll(c) // empty if the connection is closed at once
		fmt.Printf("%s %q\n", a, received)
		c.Close()
	}
	return 0
}

// captured calls work in a new network namespace. Its TCP and DNS traffic is redirected
// to n.
func captured(t *testing.T, work func(n *sandbox.Network)) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked, so that the thread and its namespace end
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			tcp, dns, err := capture.Redirect()
			if err != nil {
				return err
			}
			files := []*os.File{os.NewFile(uintptr(tcp), "tcp"), os.NewFile(uintptr(dns), "dns")}
			n, err := hostend.Open(files[0], files[1])
			for _, f := range files {
				f.Close()
			}
			if err != nil {
				return err
			}
			defer n.TCP.Close()
			defer n.DNS.Close()
			work(n)
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// inside runs the test binary in the network namespace of the calling thread. The test
// binary connects to the addresses; inside returns its output.
func inside(t *testing.T, addresses ...string) string {
	c := exec.Command("/proc/self/exe", addresses...)
	c.Env = []string{dialEnv + "=1"}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

// TestRedirectedConnections connects to the listening socket of Redirect itself, to a
// loopback address, and to another host. Only the last connection is redirected.
// Accept never returns a direct connection to the listening socket.
func TestRedirectedConnections(t *testing.T) {
	captured(t, func(n *sandbox.Network) {
		targets := make(chan netip.AddrPort, 8)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				c, target, err := n.TCP.Accept()
				if err != nil {
					return
				}
				targets <- target
				fmt.Fprint(c, "you")
				c.Close()
			}
		}()
		local := n.TCP.(interface{ Addr() net.Addr }).Addr().String()
		got := inside(t, local, "127.3.3.3:80", "5.6.7.8:80")
		n.TCP.Close()
		<-ended
		close(targets)
		var arrived []string
		for a := range targets {
			arrived = append(arrived, a.String())
		}
		if diff := cmp.Diff(fmt.Sprintf("%s \"\"\n127.3.3.3:80 refused\n5.6.7.8:80 \"you\"\n", local), got); diff != "" {
			t.Errorf("output of the program (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"5.6.7.8:80"}, arrived); diff != "" {
			t.Errorf("accepted connections (-want +got):\n%s", diff)
		}
	})
}

// TestRedirectTwice checks that Redirect fails in a namespace that is already
// redirected.
func TestRedirectTwice(t *testing.T) {
	captured(t, func(*sandbox.Network) {
		if _, _, err := capture.Redirect(); err == nil {
			t.Error("a second Redirect succeeds")
		}
	})
}

// TestRedirectWithoutPrivileges checks that Redirect requires privileges.
func TestRedirectWithoutPrivileges(t *testing.T) {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked, so that the thread ends
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- fmt.Errorf("drop all capabilities: %v", err) //nolint:errorlint // EPERM would pass the test
			return
		}
		_, _, err := capture.Redirect()
		done <- err
	}()
	if err := <-done; !errors.Is(err, unix.EPERM) {
		t.Errorf("Redirect without privileges: %v, want %v", err, unix.EPERM)
	}
}

func TestOpenRefusesFile(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := hostend.Open(null, null); err == nil {
		t.Error("Open accepts a file that is not a socket")
	}
}

// FuzzParseAcks checks that ParseAcks terminates, does not panic, and counts at most
// one acknowledgement for each header of 16 bytes.
func FuzzParseAcks(f *testing.F) {
	f.Add([]byte{36, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Add([]byte{16, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := capture.ParseAcks(b); err == nil && n*16 > len(b) {
			t.Errorf("%d acknowledgements in %d bytes", n, len(b))
		}
	})
}
