//go:build linux

// Package dockertest answers: where do tests get a Docker daemon?
//
// They start one of their own, which shares nothing with the system's: its
// folders, its socket and its containers lie below a temporary folder and go
// with it. It needs root and Debian's package docker.io, and nothing of the
// network: it makes no bridge and touches no firewall.
package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Daemon is a running daemon.
type Daemon struct {
	dir   string
	log   log
	cmd   *exec.Cmd
	ended chan struct{} // closed when the daemon's process has ended
}

// Patience with a daemon that starts or stops, which takes a second or two.
const (
	startPatience = 3 * time.Minute
	stopPatience  = time.Minute
)

// Start starts a daemon and waits until it answers. Its error tells what the
// daemon said.
func Start(ctx context.Context) (*Daemon, error) {
	program, err := exec.LookPath("dockerd")
	if err != nil {
		return nil, fmt.Errorf("a Docker daemon is needed (Debian's package docker.io): %w", err)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("starting a Docker daemon needs root")
	}
	dir, err := os.MkdirTemp("", "stint-dockerd-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{dir: dir, ended: make(chan struct{})}
	if err := d.start(program); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := d.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; the daemon said:\n%s", err, d.Log()), d.Stop())
	}
	return d, nil
}

func (d *Daemon) start(program string) error {
	config := filepath.Join(d.dir, "daemon.json") // instead of the system's
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		return err
	}
	d.cmd = exec.Command(program, "--config-file", config,
		"--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "run"),
		"--host", d.Host(), "--pidfile", filepath.Join(d.dir, "pid"),
		"--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false",
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--shutdown-timeout", "3")
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.cmd.Dir = d.dir
	// It ends with us, however we end, and not by the terminal's Ctrl-C.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		// The death signal follows the thread that starts the process: it
		// stays for as long.
		runtime.LockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			_ = d.cmd.Wait() // how it ended is of no interest
		}
		close(d.ended)
	}()
	return <-started
}

// Host is the daemon's address, unix://….
func (d *Daemon) Host() string { return "unix://" + d.socket() }

func (d *Daemon) socket() string { return filepath.Join(d.dir, "docker.sock") }

// Log is what the daemon said lately.
func (d *Daemon) Log() string { return d.log.String() }

func (d *Daemon) await(ctx context.Context) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket())
	}}
	defer transport.CloseIdleConnections()
	c := http.Client{Transport: transport, Timeout: 5 * time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", http.NoBody)
		if err != nil {
			return err
		}
		if answer, err := c.Do(r); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-d.ended:
			return errors.New("the daemon ended")
		case <-ctx.Done():
			return fmt.Errorf("waiting for the daemon: %w", context.Cause(ctx))
		}
	}
}

// Stop ends the daemon and all that it started, and removes its folder.
func (d *Daemon) Stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // one that has ended needs none
	select {
	case <-d.ended:
	case <-time.After(stopPatience):
		_ = d.cmd.Process.Kill() // the same
		<-d.ended
	}
	deadline := time.Now().Add(stopPatience)
	for {
		left := d.processes()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of the Docker daemon do not end", left)
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // may have ended meanwhile
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := d.unmount(); err != nil {
		return err
	}
	return os.RemoveAll(d.dir)
}

// processes are those that name the daemon's folder on their command line:
// containerd and its shims do.
func (d *Daemon) processes() []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(b, []byte(d.dir+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// unmount detaches what the daemon mounted, the last first.
func (d *Daemon) unmount() error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], d.dir+"/") {
			points = append(points, f[4])
		}
	}
	var errs []error
	for _, p := range slices.Backward(points) {
		if err := unix.Unmount(p, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// log keeps the end of what is written to it.
type log struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

const logSize = 64 << 10

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	if n := len(l.buf) - logSize; n > 0 {
		l.buf = append([]byte(nil), l.buf[n:]...)
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}
