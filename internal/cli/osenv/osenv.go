// Package osenv connects the command line to the operating system.
//
// It is the only package of the command line that reads the process's
// arguments, environment, streams, and signals. Programs that a command starts, such
// as git, inherit the environment.
package osenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/stint-dev/stint/internal/cli"
)

// exitInterrupted is the exit code after interrupts that the command did not handle.
const exitInterrupted = 130

// New returns the environment of this process, without the functions Serve, Probe,
// Programs, OpenKeys, and OpenMaintenance. Call stop when the command has ended.
func New() (env cli.Env, stop func(), err error) {
	dir, err := os.Getwd()
	if err != nil {
		return cli.Env{}, nil, fmt.Errorf("find the working directory: %w", err)
	}
	interrupts, stop := watchSignals()
	return cli.Env{
		Args:         os.Args[1:],
		Environ:      os.LookupEnv,
		Variables:    os.Environ,
		Dir:          dir,
		Stdin:        os.Stdin,
		Stdout:       os.Stdout,
		Stderr:       os.Stderr,
		Now:          time.Now,
		IsTerminal:   term.IsTerminal,
		ReadPassword: readPassword,
		TerminalSize: terminalSize,
		RawTerminal:  rawTerminal,
		Interrupts:   interrupts,
		Executable:   os.Executable,
	}, stop, nil
}

// terminalSize returns the size of the terminal, or that of the first terminals if it is
// not known.
func terminalSize() (width, height int) {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

func rawTerminal() (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, before) }, nil // fails only if the terminal was closed
}

// readPassword hides the input of the terminal, calls ask, and reads a line up to a line
// end or Ctrl-D. A read from a terminal cannot be interrupted, so the goroutine continues after
// the end of ctx until the program ends.
func readPassword(ctx context.Context, ask func()) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read the settings of the terminal: %w", err)
	}
	hidden := *before
	hidden.Lflag = hidden.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	hidden.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &hidden); err != nil {
		return nil, fmt.Errorf("hide the input of the terminal: %w", err)
	}
	ask()
	var line []byte
	done := make(chan error, 1)
	go func() {
		read, err := readLine(os.Stdin)
		line = read
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, unix.IoctlSetTermios(fd, unix.TCSETS, before)); err != nil {
		return nil, err
	}
	return line, nil
}

// readLine reads bytes up to a line end or the end of r.
func readLine(r io.Reader) (line []byte, err error) {
	for b := make([]byte, 1); ; {
		n, err := r.Read(b)
		switch {
		case n == 1 && b[0] == '\n', errors.Is(err, io.EOF):
			return line, nil
		case err != nil:
			return nil, err
		}
		line = append(line, b[:n]...)
	}
}

// watchSignals returns a channel of requests to stop, which holds one request. If a
// signal arrives while the channel is full, the program ends. For a command that
// reads only the first request, this is the third signal. If the parent process
// ignores SIGINT or SIGHUP, as nohup does, the signal stays ignored.
func watchSignals() (<-chan cli.Interrupt, func()) {
	watched := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			watched = append(watched, s)
		}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, watched...)
	interrupts := make(chan cli.Interrupt, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			request := cli.Stop
			if s == syscall.SIGHUP {
				request = cli.HangUp
			}
			select {
			case interrupts <- request:
			default:
				os.Exit(exitInterrupted)
			}
		}
	}()
	return interrupts, func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
