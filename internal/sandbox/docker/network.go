//go:build linux && (amd64 || arm64)

package docker

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/capture"
	"github.com/stint-dev/stint/internal/sandbox/capture/farend"
)

// captureNetwork takes the network namespace of a process into our hands.
func captureNetwork(pid int) (*sandbox.Network, error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("finding the container's network: %w", err)
	}
	defer ns.Close()
	type sockets struct {
		tcp, dns int
		err      error
	}
	made := make(chan sockets)
	go func() {
		// A network namespace belongs to a thread. This one is never unlocked,
		// so it ends with the goroutine and nobody else meets that network.
		runtime.LockOSThread()
		var s sockets
		if s.err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); s.err == nil {
			s.tcp, s.dns, s.err = capture.Set()
		}
		made <- s
	}()
	s := <-made
	if errors.Is(s.err, capture.ErrNoRules) {
		return nil, &sandbox.Error{Message: "The host's kernel cannot lead a sandbox's network to Stint: nf_tables with its nat chains and redirect is missing.", Err: s.err}
	}
	if s.err != nil {
		return nil, s.err
	}
	tcp, dns := os.NewFile(uintptr(s.tcp), "tcp"), os.NewFile(uintptr(s.dns), "dns")
	defer tcp.Close()
	defer dns.Close()
	return farend.Open(tcp, dns)
}
