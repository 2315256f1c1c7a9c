//go:build linux && (amd64 || arm64)

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// Start sends the command and its streams to init and waits until the command is
// started. If init refuses the command, the error is a *sandbox.Error. If ctx ends
// first, the command may or may not have been started, and the caller must kill the
// sandbox.
func (c *Conn) Start(ctx context.Context, cmd sandbox.Command) error {
	if err := checkCommand(cmd); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("starting command: %w", context.Cause(ctx))
	}
	pipes, err := c.openPipes(cmd)
	defer pipes.closeRemote()
	if err != nil {
		pipes.closeLocal()
		return err
	}
	command := agentinit.Command{Argv: cmd.Argv, Env: cmd.Env, Dir: cmd.Dir}
	if c.config.Processes != nil {
		command.Processes = c.config.Processes()
	}
	message, err := MemoryFile("command", &command)
	if err != nil {
		pipes.closeLocal()
		return err
	}
	defer message.Close()
	if err := c.startCopying(cmd, pipes); err != nil {
		pipes.closeLocal()
		return err
	}
	if err := c.socket.send(agentinit.Message{Op: agentinit.OpStart}, append([]*os.File{message}, pipes.remote...)...); err != nil {
		return fmt.Errorf("starting command: %w", err)
	}
	pipes.closeRemote() // while these are open, the output pipes do not end
	if err := c.awaitStart(ctx); err != nil {
		return err
	}
	close(c.running)
	return nil
}

func checkCommand(cmd sandbox.Command) error {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return &sandbox.Error{Message: "The command is empty."}
	}
	for _, s := range slices.Concat(cmd.Argv, cmd.Env, []string{cmd.Dir}) {
		if strings.ContainsRune(s, 0) {
			return &sandbox.Error{Message: "The command, its environment or its working directory contains a zero byte."}
		}
	}
	return nil
}

// startCopying starts the goroutines that copy the streams, and the goroutine that
// calls Watch.
func (c *Conn) startCopying(cmd sandbox.Command, p *pipes) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.killed || c.ended {
		return errors.New("sandbox: Start after Start, Kill, Close or the sandbox's end")
	}
	c.started = true
	c.outputs = p.outputs
	for _, st := range p.outputs {
		c.goroutines.Go(st.copy)
	}
	if p.stdin != nil {
		// WaitOutput does not wait for this goroutine, because the caller's
		// reader may block indefinitely.
		go copyInput(p.stdin, cmd.Stdin)
	}
	if c.config.Watch != nil {
		c.goroutines.Go(c.watch)
	}
	return nil
}

// watch calls Watch after Start has returned, so that a command that exceeds
// its limits immediately is still reported as started.
func (c *Conn) watch() {
	select {
	case <-c.running:
		c.config.Watch()
	case <-c.gone:
	}
}

func (c *Conn) awaitStart(ctx context.Context) error {
	a, err := c.await(ctx, func() error { return errors.New("the sandbox was killed") })
	if err != nil {
		return fmt.Errorf("starting command: %w", err)
	}
	closeAll(a.files) // an answer to start should have no descriptors
	if a.Op != agentinit.OpStarted {
		return &sandbox.Error{Message: a.Text}
	}
	return nil
}

// pipes are the three streams of a command.
type pipes struct {
	remote  []*os.File      // stdin, stdout, and stderr for init
	stdin   *os.File        // local end; nil if the command has no input
	outputs []*outputCopier // local ends of stdout and stderr
}

func (p *pipes) closeRemote() {
	for _, f := range p.remote {
		f.Close() // closing a file twice is harmless
	}
}

// closeLocal closes the local ends. It must be called only if no goroutine copies the
// streams.
func (p *pipes) closeLocal() {
	if p.stdin != nil {
		p.stdin.Close()
	}
	for _, s := range p.outputs {
		s.pipe.Close()
	}
}

func (c *Conn) openPipes(cmd sandbox.Command) (*pipes, error) {
	p := &pipes{}
	if err := c.openInput(p, cmd.Stdin); err != nil {
		return p, err
	}
	for i, w := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		switch {
		case w == nil:
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				return p, fmt.Errorf("opening output: %w", err)
			}
			p.remote = append(p.remote, null)
		case i == 1 && sameWriter(cmd.Stdout, w): // a single pipe keeps the order of writes
			fd, err := unix.FcntlInt(p.remote[1].Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return p, fmt.Errorf("opening output: %w", err)
			}
			p.remote = append(p.remote, os.NewFile(uintptr(fd), "output"))
		default:
			local, remote, err := c.pipe(false)
			if err != nil {
				return p, err
			}
			p.remote = append(p.remote, remote)
			p.outputs = append(p.outputs, newOutputCopier(local, w))
		}
	}
	return p, nil
}

func (c *Conn) openInput(p *pipes, r io.Reader) error {
	if r == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("opening input: %w", err)
		}
		p.remote = append(p.remote, null)
		return nil
	}
	local, remote, err := c.pipe(true)
	if err != nil {
		return err
	}
	p.stdin = local
	p.remote = append(p.remote, remote)
	return nil
}

// pipe returns the two ends of a new pipe. The local end is non-blocking, so that
// reads and writes can be interrupted; the remote end blocks, as programs expect.
// The agent's user owns the pipe, so that the agent can reopen it as /dev/stdout.
func (c *Conn) pipe(input bool) (local, remote *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("creating pipe: %w", err)
	}
	localFD, remoteFD := fds[0], fds[1]
	if input {
		localFD, remoteFD = remoteFD, localFD
	}
	err = unix.SetNonblock(localFD, true)
	if err == nil && c.config.Owner >= 0 {
		err = unix.Fchown(remoteFD, c.config.Owner, c.config.Owner)
	}
	if err != nil {
		unix.Close(localFD)
		unix.Close(remoteFD)
		return nil, nil, fmt.Errorf("creating pipe: %w", err)
	}
	return os.NewFile(uintptr(localFD), "pipe"), os.NewFile(uintptr(remoteFD), "pipe"), nil
}

func sameWriter(a, b io.Writer) bool {
	return a != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(a) == reflect.TypeOf(b) && a == b
}
