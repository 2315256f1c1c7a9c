package fakecli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

type codex struct {
	lineWriter
	id, file string
	resumes  bool
	turns    int
	items    int
}

func newCodex(args []string, out io.Writer) *codex {
	c := &codex{lineWriter: lineWriter{out}, id: fmt.Sprintf("01a00000-0000-7000-8000-%012d", os.Getpid())}
	if c.resumes = slices.Contains(args, "resume"); c.resumes && len(args) > 1 {
		c.id = args[len(args)-2] // the last argument is a dash
	}
	dir := filepath.Join(os.Getenv("CODEX_HOME"), "sessions")
	_ = os.MkdirAll(dir, 0o755) // after an error, opening the file fails
	c.file = filepath.Join(dir, "rollout-"+c.id+".jsonl")
	return c
}

func (c *codex) prompt(in *bufio.Reader) string {
	b, err := io.ReadAll(in)
	if err != nil {
		return ""
	}
	return string(b)
}

func (c *codex) begin() (turns int, ok bool) {
	if _, err := os.Stat(c.file); c.resumes && err != nil {
		fmt.Fprintln(os.Stderr, "Error: thread/resume failed: no rollout found for thread id "+c.id)
		return 0, false
	}
	c.line(object{"type": "thread.started", "thread_id": c.id})
	c.line(object{"type": "turn.started"})
	c.turns = remember(c.file)
	return c.turns, true
}

func (c *codex) say(text string) {
	c.items++
	c.line(object{"type": "item.completed", "item": object{"id": fmt.Sprintf("item_%d", c.items), "type": "agent_message", "text": text}})
}

func (c *codex) retry(int) {
	c.line(object{"type": "error", "message": "Reconnecting... (status 529)"})
}

// end reports the tokens of the whole conversation, as Codex does.
func (c *codex) end(string) {
	c.line(object{"type": "turn.completed", "usage": object{"input_tokens": 100 * c.turns, "output_tokens": 20 * c.turns}})
}

func (c *codex) refused() {
	c.line(object{"type": "turn.failed", "error": object{"message": "unexpected status 401 Unauthorized"}})
}

// stopping uses signals as the request to stop, because standard input has ended.
func (c *codex) stopping(*bufio.Reader) (stopped func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	return func() { <-asked }
}
