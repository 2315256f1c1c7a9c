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

// Start hands the command and its streams to the warden. When ctx ends first,
// the command may have started or not: the caller kills the sandbox.
func (s *Session) Start(ctx context.Context, c sandbox.Command) error {
	if err := checkCommand(c); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("starting command: %w", context.Cause(ctx))
	}
	pipes, err := s.openPipes(c)
	defer pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return err
	}
	order := agentinit.Order{Argv: c.Argv, Env: c.Env, Dir: c.Dir}
	if s.c.Processes != nil {
		order.Processes = s.c.Processes()
	}
	paper, err := MemoryFile("order", &order)
	if err != nil {
		pipes.closeOurs()
		return err
	}
	defer paper.Close()
	if err := s.begin(c, pipes); err != nil {
		pipes.closeOurs()
		return err
	}
	if err := s.link.send(agentinit.Message{Op: agentinit.OpStart}, append([]*os.File{paper}, pipes.theirs...)...); err != nil {
		return fmt.Errorf("starting command: %w", err)
	}
	pipes.closeTheirs() // else a command's end would not end its streams
	if err := s.awaitStart(ctx); err != nil {
		return err
	}
	close(s.running)
	return nil
}

func checkCommand(c sandbox.Command) error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return &sandbox.Error{Message: "The command is empty."}
	}
	for _, s := range slices.Concat(c.Argv, c.Env, []string{c.Dir}) {
		if strings.ContainsRune(s, 0) {
			return &sandbox.Error{Message: "The command, its environment or its working directory contains a zero byte."}
		}
	}
	return nil
}

// begin starts the copying; from here on the streams end by themselves.
func (s *Session) begin(c sandbox.Command, p *pipes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.killed || s.ended {
		return errors.New("sandbox: Start after Start, Kill, Close or the sandbox's end")
	}
	s.started = true
	s.streams = p.streams
	for _, st := range p.streams {
		s.work.Go(st.copy)
	}
	if p.stdin != nil {
		// Not waited for: the caller's reader may block as long as it likes.
		go feed(p.stdin, c.Stdin)
	}
	if s.c.Watch != nil {
		s.work.Go(s.watch)
	}
	return nil
}

// watch begins once the start is told: a command that is over its limits at once
// has started all the same.
func (s *Session) watch() {
	select {
	case <-s.running:
		s.c.Watch()
	case <-s.gone:
	}
}

func (s *Session) awaitStart(ctx context.Context) error {
	var a answer
	select {
	case a = <-s.said:
	case <-s.gone:
		select {
		case a = <-s.said: // and ended at once; Wait tells how
		default:
			return errors.New("starting command: the sandbox was killed")
		}
	case <-ctx.Done():
		return fmt.Errorf("starting command: %w", context.Cause(ctx))
	}
	if a.Op != agentinit.OpStarted {
		return &sandbox.Error{Message: a.Text}
	}
	return nil
}

// pipes are a command's three streams.
type pipes struct {
	theirs  []*os.File // stdin, stdout, stderr for the warden
	stdin   *os.File   // our end, nil without input
	streams []*stream
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		f.Close() // the second close of a file is harmless
	}
}

// closeOurs is for streams that were never begun.
func (p *pipes) closeOurs() {
	if p.stdin != nil {
		p.stdin.Close()
	}
	for _, s := range p.streams {
		s.pipe.Close()
	}
}

func (s *Session) openPipes(c sandbox.Command) (*pipes, error) {
	p := &pipes{}
	if err := s.openInput(p, c.Stdin); err != nil {
		return p, err
	}
	for i, w := range []io.Writer{c.Stdout, c.Stderr} {
		switch {
		case w == nil:
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				return p, fmt.Errorf("opening output: %w", err)
			}
			p.theirs = append(p.theirs, null)
		case i == 1 && same(c.Stdout, w): // one stream keeps the order of writes
			fd, err := unix.FcntlInt(p.theirs[1].Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return p, fmt.Errorf("opening output: %w", err)
			}
			p.theirs = append(p.theirs, os.NewFile(uintptr(fd), "output"))
		default:
			ours, theirs, err := s.pipe(false)
			if err != nil {
				return p, err
			}
			p.theirs = append(p.theirs, theirs)
			p.streams = append(p.streams, newStream(ours, w))
		}
	}
	return p, nil
}

func (s *Session) openInput(p *pipes, r io.Reader) error {
	if r == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("opening input: %w", err)
		}
		p.theirs = append(p.theirs, null)
		return nil
	}
	ours, theirs, err := s.pipe(true)
	if err != nil {
		return err
	}
	p.stdin = ours
	p.theirs = append(p.theirs, theirs)
	return nil
}

// pipe gives our end, which can be interrupted, and theirs, which blocks as
// programs expect. The agent owns the pipe: it may open it by /dev/stdout.
func (s *Session) pipe(input bool) (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making pipe: %w", err)
	}
	us, them := fds[0], fds[1]
	if input {
		us, them = them, us
	}
	err = unix.SetNonblock(us, true)
	if err == nil && s.c.Owner >= 0 {
		err = unix.Fchown(them, s.c.Owner, s.c.Owner)
	}
	if err != nil {
		unix.Close(us)
		unix.Close(them)
		return nil, nil, fmt.Errorf("making pipe: %w", err)
	}
	return os.NewFile(uintptr(us), "pipe"), os.NewFile(uintptr(them), "pipe"), nil
}

func same(a, b io.Writer) bool {
	return a != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(a) == reflect.TypeOf(b) && a == b
}
