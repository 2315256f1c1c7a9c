// Package process answers: how does the command line meet the operating system?
//
// It is the one place of the command line that reads the process's arguments,
// environment, streams and signals.
package osenv

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/stint-dev/stint/internal/cli"
)

// exitInterrupted is the code of a program that was interrupted too often to
// end in order.
const exitInterrupted = 130

// New returns the world of this process, without Serve and Probe. Call stop when
// the command has ended.
func New() (env cli.Env, stop func(), err error) {
	dir, err := os.Getwd()
	if err != nil {
		return cli.Env{}, nil, fmt.Errorf("find the working directory: %w", err)
	}
	interrupts, stop := watchSignals()
	return cli.Env{
		Args:         os.Args[1:],
		Environ:      os.LookupEnv,
		Dir:          dir,
		Stdin:        os.Stdin,
		Stdout:       os.Stdout,
		Stderr:       os.Stderr,
		Now:          time.Now,
		IsTerminal:   term.IsTerminal,
		ReadPassword: func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) },
		Interrupts:   interrupts,
	}, stop, nil
}

// watchSignals passes requests to stop on. When a command does not take them,
// the third one ends the program. A signal that whoever started the program
// has it ignore, as nohup does, stays ignored.
func watchSignals() (<-chan cli.Interrupt, func()) {
	heard := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			heard = append(heard, s)
		}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, heard...)
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
