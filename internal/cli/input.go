package cli

import (
	"context"
	"fmt"
	"io"
)

// readInput returns at most the first limit bytes of standard input. A read cannot be
// interrupted, so its goroutine continues after the end of ctx until the program ends.
func (a *app) readInput(ctx context.Context, limit int64) ([]byte, error) {
	done := make(chan struct{})
	var read []byte
	var failed error
	go func() {
		defer close(done)
		read, failed = io.ReadAll(io.LimitReader(a.Stdin, limit))
	}()
	select {
	case <-done:
		return read, failed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readHidden prints a question and reads a line from the terminal without showing
// the line. An interrupt ends the reading.
func (a *app) readHidden(ctx context.Context, question string, args ...any) (string, error) {
	var line []byte
	err := a.untilInterrupted(ctx, func(ctx context.Context) (err error) {
		line, err = a.ReadPassword(ctx, func() { fmt.Fprintf(a.Stderr, question, args...) })
		return err
	})
	fmt.Fprintln(a.Stderr)
	if err != nil {
		return "", fmt.Errorf("read from the terminal: %w", err)
	}
	return string(line), nil
}
