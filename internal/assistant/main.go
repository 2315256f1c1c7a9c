// Package assistant answers: how does our own agent work?
//
// It is a loop inside the sandbox: the conversation goes to a model, the tools
// that the model asks for are used, what they give goes into the conversation,
// until an answer asks for none. The sandbox is the boundary; in it the tools do
// what they are told. Package protocol has what goes in and out.
//
// The conversation is a file of JSON lines, to which each step is appended
// before the next begins, so that a process that is killed at any time loses no
// more than the step that it was at.
package assistant

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/llm"
)

// Exit codes of Main.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

var errInterrupted = errors.New("interrupted")

// Main is the assistant as a program: args is the path of its configuration. It
// ends when its work is done, when it is told so on stdin, by SIGTERM or SIGINT,
// or with ctx, and returns the exit code. Who calls it ends the process soon: a
// goroutine that reads stdin lives as long as that is open.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	config, err := readConfig(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer onSignal(func() { cancel(errInterrupted) })()
	prompt, err := listen(ctx, stdin, func() { cancel(errInterrupted) })
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	out := newLineWriter(stdout)
	final, err := work(ctx, config, prompt, out)
	end, code := ending(final, err, &config)
	out.say(end)
	return code
}

func readConfig(args []string) (c protocol.Config, err error) {
	if len(args) != 1 {
		return c, errors.New("usage: " + protocol.Verb + " CONFIG.json")
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	return c, nil
}

// onSignal calls f when the process is told to end.
func onSignal(f func()) (stop func()) {
	signals := make(chan os.Signal, 1)
	quit := make(chan struct{})
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		defer close(done)
		select {
		case <-signals:
			f()
		case <-quit:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		<-done
	}
}

// listen waits for the prompt. An interrupt may come after it or before.
func listen(ctx context.Context, stdin io.Reader, interrupt func()) (string, error) {
	prompt := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for in := bufio.NewReader(stdin); ; {
			line, err := in.ReadBytes('\n')
			var input protocol.Input
			if json.Unmarshal(line, &input) == nil {
				switch input.Type {
				case protocol.InputPrompt:
					select {
					case prompt <- input.Text:
					default: // one is all that there is
					}
				case protocol.InputInterrupt:
					interrupt()
				}
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case text := <-prompt:
		return text, nil
	case <-ctx.Done():
		return "", errors.New("interrupted before there was a prompt")
	case <-ended:
	}
	select {
	case text := <-prompt:
		return text, nil
	default:
		return "", errors.New("no prompt came on standard input")
	}
}

// work does what the prompt says and returns the last message.
func work(ctx context.Context, c protocol.Config, prompt string, out *lineWriter) (string, error) {
	s, err := openSession(c.Session, c.NewID, time.Now)
	if err != nil {
		return "", err
	}
	defer s.close()
	out.say(protocol.Line{Type: protocol.LineStarted, Session: s.id, Resumed: s.resumed})
	if c.Resume != "" && !s.resumed {
		out.notice("conversation_lost", "The conversation of the runs before is not there. This run begins a new one.")
	}
	think, err := newModel(&c)
	if err != nil {
		return "", err
	}
	tools := newToolbox(c.WorkDir, out)
	if c.Provider == stint.ProviderOffline {
		out.notice("offline", offlineNotice(s.resumed))
	}
	defer tools.connect(ctx, c.MCP, out)()
	a := &agent{c: &c, out: out, think: think, tools: tools, session: s, limit: limitOf(&c)}
	return a.run(ctx, prompt)
}

func newModel(c *protocol.Config) (model, error) {
	if c.Provider == stint.ProviderOffline {
		return &offline{c: c}, nil
	}
	// The way to the model is the sandbox's own, whatever proxy its environment
	// names for other things.
	direct := &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second}
	return llm.New(llm.Options{Type: c.Provider, URL: c.URL, Key: c.Key, Tries: c.Tries, HTTP: &http.Client{Transport: direct}})
}

// ending is the last word and the exit code.
func ending(final string, err error, c *protocol.Config) (protocol.Line, int) {
	if err == nil {
		return protocol.Line{Type: protocol.LineEnd, OK: true, Text: final}, exitDone
	}
	line := protocol.Line{Type: protocol.LineEnd, Text: final, Error: sentence(err, c)}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		line.Reason = stint.ReasonCancelled
		return line, exitInterrupted
	}
	if f, ok := errors.AsType[*failure](err); ok {
		line.Reason = f.reason
	}
	return line, exitFailed
}
