//go:build linux && (amd64 || arm64)

package agentinit_test

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/control"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// startInit starts this test binary as agentinit. The process runs in a new PID
// namespace, so that it can only signal its own processes. It inherits files as the
// descriptors 3 and following.
func startInit(t *testing.T, files ...*os.File) *os.Process {
	t.Helper()
	requirement.Root(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	p, err := os.StartProcess("/proc/self/exe", []string{"/x/" + agentinit.Name}, &os.ProcAttr{
		Env: []string{}, Files: append([]*os.File{null, null, os.Stderr}, files...), Sys: attr,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// checkCommand runs one command through the init process p, at the other end of conn,
// and checks the command's exit and output. It sends options to init unless they are
// nil.
func checkCommand(t *testing.T, conn *net.UnixConn, p *os.Process, options *agentinit.StartOptions) {
	t.Helper()
	s := control.New(conn, control.Config{Owner: -1, Cause: func(e sandbox.Exit, _ bool) sandbox.Cause { return e.Cause }})
	go s.Listen(func() {
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	})
	var files []*os.File
	if options != nil {
		file, err := control.MemoryFile("options", options)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files = append(files, file)
	}
	if _, err := s.Request(t.Context(), agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "no message" }, files...); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := sandbox.Command{Argv: []string{"/bin/sh", "-c", "cat; exit 3"}, Dir: "/", Stdin: strings.NewReader("input"), Stdout: &out}
	if err := s.Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	e, err := s.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sandbox.Exit{Code: 3, Cause: sandbox.Exited}, e); diff != "" {
		t.Errorf("exit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("input", out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	s.Close() // init ends when its socket is closed
	<-s.Gone()
	if err := s.WaitOutput(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInitWithInheritedSocket(t *testing.T) {
	conn, remote, err := control.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	p := startInit(t, remote)
	remote.Close()
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	checkCommand(t, conn, p, &agentinit.StartOptions{Filter: []unix.SockFilter{allow}})
}

// TestInitRefusesEmptyFilter checks that init reports an error if the seccomp filter is
// empty, and does not run commands without a filter.
func TestInitRefusesEmptyFilter(t *testing.T) {
	conn, remote, err := control.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	p := startInit(t, remote)
	remote.Close()
	s := control.New(conn, control.Config{Owner: -1})
	go s.Listen(func() {
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	})
	file, err := control.MemoryFile("options", &agentinit.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, err = s.Request(t.Context(), agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, func() string { return "no message" }, file)
	if err == nil || !strings.Contains(err.Error(), "filter") {
		t.Errorf("error for an empty filter: %v", err)
	}
	<-s.Gone()
}

// TestInitWithoutSocket checks that init exits if it did not inherit a control
// socket.
func TestInitWithoutSocket(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, files := range map[string][]*os.File{"no descriptor": nil, "not a socket": {null}} {
		p := startInit(t, files...)
		st, err := p.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if st.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit status 1", name, st)
		}
	}
}
