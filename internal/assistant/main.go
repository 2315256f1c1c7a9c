// Package assistant implements the built-in agent.
//
// The agent is a loop inside the sandbox: it sends the conversation to a model,
// runs the tools that the model calls, adds their results, and ends when an
// answer calls no tool. Tools are not restricted, because the sandbox is the
// boundary. Package protocol defines the input and output.
//
// The conversation is a file of JSON lines. Each step is appended before the
// next one starts, so a killed process loses at most the current step.
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

// Main runs the assistant and returns its exit code. args contains the path of
// the configuration. Main returns when the work is done, after an interrupt on
// stdin, after SIGTERM or SIGINT, or when ctx ends. A goroutine that reads
// stdin remains, so the caller must exit soon.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	config, err := readConfig(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(signals, func() { cancel(errInterrupted) })
	prompt, err := listen(ctx, stdin, func() { cancel(errInterrupted) })
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	out := newLineWriter(stdout)
	final, err := work(ctx, config, prompt, out)
	end, code := ending(final, err, &config)
	out.write(end)
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

// listen waits for the prompt and returns it. It calls interrupt for each
// interrupt, before or after the prompt.
func listen(ctx context.Context, stdin io.Reader, interrupt func()) (string, error) {
	prompt := make(chan string, 1)
	go func() {
		defer close(prompt)
		for in := bufio.NewReader(stdin); ; {
			line, err := in.ReadBytes('\n')
			var input protocol.Input
			if json.Unmarshal(line, &input) == nil {
				switch input.Type {
				case protocol.InputPrompt:
					select {
					case prompt <- input.Text:
					default: // only the first prompt counts
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
	case text, ok := <-prompt:
		if !ok {
			return "", errors.New("standard input contained no prompt")
		}
		return text, nil
	case <-ctx.Done():
		return "", errors.New("interrupted before there was a prompt")
	}
}

// work works on the prompt and returns the final message.
func work(ctx context.Context, c protocol.Config, prompt string, out *lineWriter) (string, error) {
	s, err := openSession(c.Session, c.NewID, time.Now)
	if err != nil {
		return "", err
	}
	defer s.close()
	out.write(protocol.Line{Type: protocol.LineStarted, Session: s.id, Resumed: s.resumed})
	if c.Resume != "" && !s.resumed {
		out.notice("conversation_lost", "The conversation of the earlier runs is missing. This run starts a new one.")
	}
	m, err := newModel(&c)
	if err != nil {
		return "", err
	}
	tools := newToolbox(c.WorkDir, out)
	if c.Provider == stint.ProviderOffline {
		out.notice("offline", offlineNotice(s.resumed))
	}
	defer tools.connect(ctx, c.MCP, out)()
	a := &agent{c: &c, out: out, model: m, tools: tools, session: s, limit: limitOf(&c)}
	return a.run(ctx, prompt)
}

func newModel(c *protocol.Config) (model, error) {
	if c.Provider == stint.ProviderOffline {
		return &offline{c: c}, nil
	}
	// Do not use the proxies of the environment for the model.
	direct := &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second}
	return llm.New(llm.Options{Type: c.Provider, URL: c.URL, Key: c.Key, Tries: c.Tries, HTTP: &http.Client{Transport: direct}})
}

// ending returns the last line of output and the exit code.
func ending(final string, err error, c *protocol.Config) (protocol.Line, int) {
	if err == nil {
		return protocol.Line{Type: protocol.LineEnd, OK: true, Text: final}, exitDone
	}
	line := protocol.Line{Type: protocol.LineEnd, Text: final, Error: messageFor(err, c)}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		line.Reason = stint.ReasonCancelled
		return line, exitInterrupted
	}
	if f, ok := errors.AsType[*failure](err); ok {
		line.Reason = f.reason
	}
	return line, exitFailed
}
