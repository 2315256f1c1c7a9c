//go:build linux && (amd64 || arm64)

package namespace

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
	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
)

// Start hands the command and its streams to init.
func (b *box) Start(ctx context.Context, c sandbox.Command) error {
	if err := checkCommand(c); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("starting command: %w", context.Cause(ctx))
	}
	pipes, err := b.openPipes(c)
	defer pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return err
	}
	paper, err := memoryFile("order", &inside.Order{Argv: c.Argv, Env: c.Env, Dir: c.Dir})
	if err != nil {
		pipes.closeOurs()
		return err
	}
	defer paper.Close()
	if err := b.begin(c, pipes); err != nil {
		pipes.closeOurs()
		return err
	}
	if err := b.link.send(inside.Message{Op: inside.OpStart}, append([]*os.File{paper}, pipes.theirs...)...); err != nil {
		return fmt.Errorf("starting command: %w", err)
	}
	pipes.closeTheirs() // else a command's end would not end its streams
	return b.awaitStart(ctx)
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
func (b *box) begin(c sandbox.Command, p *pipes) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started || b.killed || b.ended {
		return errors.New("namespace: Start after Start, Kill, Close or the sandbox's end")
	}
	b.started = true
	b.streams = p.streams
	for _, s := range p.streams {
		b.work.Go(s.copy)
	}
	if p.stdin != nil {
		// Not waited for: the caller's reader may block as long as it likes.
		go feed(p.stdin, c.Stdin)
	}
	b.work.Go(b.watch)
	return nil
}

func (b *box) awaitStart(ctx context.Context) error {
	select {
	case m := <-b.said:
		if m.Op == inside.OpStarted {
			return nil
		}
		return &sandbox.Error{Message: m.Text}
	case <-b.gone:
		select {
		case m := <-b.said:
			if m.Op == inside.OpStarted {
				return nil // and ended at once; Wait tells how
			}
			return &sandbox.Error{Message: m.Text}
		default:
			return errors.New("starting command: the sandbox was killed")
		}
	case <-ctx.Done():
		err := b.process.Kill() // whether it has started or not, it must not go on
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		return errors.Join(fmt.Errorf("starting command: %w", context.Cause(ctx)), err)
	}
}

// pipes are a command's three streams.
type pipes struct {
	theirs  []*os.File // stdin, stdout, stderr for init
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

func (b *box) openPipes(c sandbox.Command) (*pipes, error) {
	p := &pipes{}
	if err := b.openInput(p, c.Stdin); err != nil {
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
			ours, theirs, err := b.pipe(false)
			if err != nil {
				return p, err
			}
			p.theirs = append(p.theirs, theirs)
			p.streams = append(p.streams, newStream(ours, w))
		}
	}
	return p, nil
}

func (b *box) openInput(p *pipes, r io.Reader) error {
	if r == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("opening input: %w", err)
		}
		p.theirs = append(p.theirs, null)
		return nil
	}
	ours, theirs, err := b.pipe(true)
	if err != nil {
		return err
	}
	p.stdin = ours
	p.theirs = append(p.theirs, theirs)
	return nil
}

// pipe gives our end, which can be interrupted, and theirs, which blocks as
// programs expect. The agent owns the pipe: it may open it by /dev/stdout.
func (b *box) pipe(input bool) (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making pipe: %w", err)
	}
	us, them := fds[0], fds[1]
	if input {
		us, them = them, us
	}
	err = unix.SetNonblock(us, true)
	if err == nil && b.ranged {
		agent := b.driver.ranges.agent(b.slot)
		err = unix.Fchown(them, agent, agent)
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
