package assistant

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/llm"
)

const (
	defaultCommandTime = 2 * time.Minute
	maxCommandTime     = time.Hour
	// commandGrace is the maximum time between SIGTERM and SIGKILL, and the
	// maximum time to wait for output after the command has ended.
	commandGrace = 400 * time.Millisecond
	keptHead     = 20 << 10 // bytes kept from the start of the output
	keptTail     = 11 << 10 // bytes kept from the end of the output
)

func (b *toolbox) bash() tool {
	return tool{
		Tool: llm.Tool{
			Name:        "bash",
			Description: "Runs a command in bash, in the working directory, and returns its output (the start and the end of long output) and its exit code. Each command has a shell of its own and no terminal. Programs that stay in the background must write to a file.",
			Schema: object(1,
				[3]string{"command", "string", "the command"},
				[3]string{"timeout", "integer", "time limit in seconds; default 120, at most 3600"}),
		},
		run: typed(func(ctx context.Context, in struct {
			Command string
			Timeout int64
		},
		) outcome {
			limit := defaultCommandTime
			if in.Timeout > 0 {
				limit = min(time.Duration(min(in.Timeout, 1<<20))*time.Second, maxCommandTime)
			}
			return b.command(ctx, in.Command, limit)
		}),
	}
}

// command runs a command in its own process group. When the time limit is reached or
// ctx ends, the whole group receives SIGTERM. The group receives SIGKILL when the shell
// has ended and its output is closed, at the latest after commandGrace.
func (b *toolbox) command(ctx context.Context, command string, limit time.Duration) outcome {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	shell := "/bin/bash"
	if found, err := exec.LookPath("bash"); err == nil {
		shell = found
	} else if found, err := exec.LookPath("sh"); err == nil {
		shell = found
	}
	var out headTail
	cmd := exec.CommandContext(limited, shell, "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	if err := cmd.Start(); err != nil {
		return failed("The command could not be started: %v.", err)
	}
	quiet := b.reportWorking()
	err := cmd.Wait()
	quiet()
	if limited.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if the group has ended
	}
	text, cut := out.text()
	o := outcome{text: text, truncated: cut}
	appendLine := func(format string, args ...any) {
		o.text = strings.TrimSuffix(o.text, "\n") + "\n" + fmt.Sprintf(format, args...)
	}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		o.failed = true // the caller adds the reason
	case limited.Err() != nil:
		o.failed = true
		appendLine("(stopped after its time limit of %s)", limit)
	case exited && exit.ExitCode() >= 0:
		code := exit.ExitCode()
		o.exitCode = &code
		appendLine("(exit code %d)", code)
	case exited:
		o.failed = true
		appendLine("(%s)", exit)
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // a background process may hold the output
		code := 0
		o.exitCode = &code
	default:
		o.failed = true
		appendLine("(%v)", err)
	}
	return o
}

// reportWorking writes a "working" line each minute until the caller calls quiet. A
// command's output is reported only when the command ends. Without these lines, a long
// command would make the run reach its idle limit. Calls of MCP tools do not write such
// lines, so that the idle limit ends a run in which a call hangs.
func (b *toolbox) reportWorking() (quiet func()) {
	ticks, stop := b.every(time.Minute)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ticks:
				b.out.write(protocol.Line{Type: protocol.LineWorking})
			case <-done:
				return
			}
		}
	})
	return func() {
		stop()
		close(done)
		wg.Wait()
	}
}

// headTail keeps the start and the end of the bytes written to it. The zero value
// is ready to use.
type headTail struct {
	mu    sync.Mutex // guards the fields below
	head  []byte
	tail  []byte // newest bytes, at most 4 * keptTail
	total int
}

func (e *headTail) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(p)
	e.total += n
	if room := keptHead - len(e.head); room > 0 {
		taken := min(room, len(p))
		e.head, p = append(e.head, p[:taken]...), p[taken:]
	}
	if len(p) > keptTail {
		p = p[len(p)-keptTail:]
	}
	e.tail = append(e.tail, p...)
	if len(e.tail) > 4*keptTail {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-keptTail:]...)
	}
	return n, nil
}

func (e *headTail) text() (text string, cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.total <= keptHead+keptTail {
		return string(e.head) + string(e.tail), false
	}
	tail := e.tail[max(0, len(e.tail)-keptTail):]
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", e.head, e.total-len(e.head)-len(tail), tail), true
}
