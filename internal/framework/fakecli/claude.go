package fakecli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// object is a JSON object.
type object = map[string]any

type claude struct {
	lineWriter
	id, file string
	resumes  bool
	messages int
}

func newClaude(args []string, out io.Writer) *claude {
	c := &claude{lineWriter: lineWriter{out}, id: after(args, "--session-id")}
	if id := after(args, "--resume"); id != "" {
		c.id, c.resumes = id, true
	}
	dir := filepath.Join(os.Getenv("HOME"), ".claude/projects/-workspace")
	_ = os.MkdirAll(dir, 0o755) // after an error, opening the file fails
	c.file = filepath.Join(dir, c.id+".jsonl")
	return c
}

func (c *claude) prompt(in *bufio.Reader) string {
	line, err := in.ReadString('\n')
	if err != nil {
		return ""
	}
	var m struct{ Message struct{ Content string } }
	_ = json.Unmarshal([]byte(line), &m) // for other input the prompt is empty
	return m.Message.Content
}

func (c *claude) begin() (turns int, ok bool) {
	if _, err := os.Stat(c.file); c.resumes && err != nil {
		text := "No conversation found with session ID: " + c.id
		fmt.Fprintln(os.Stderr, text)
		c.result("error_during_execution", true, object{"errors": []string{text}})
		return 0, false
	}
	c.line(object{"type": "system", "subtype": "init", "session_id": c.id, "claude_code_version": "99.0.0", "mcp_servers": []string{}})
	return remember(c.file), true
}

func (c *claude) say(text string) {
	c.messages++
	c.line(object{"type": "assistant", "session_id": c.id, "parent_tool_use_id": nil, "message": object{
		"id": fmt.Sprintf("msg_%d", c.messages), "role": "assistant", "model": "fake", "content": []object{{"type": "text", "text": text}},
	}})
}

func (c *claude) retry(n int) {
	c.line(object{"type": "system", "subtype": "api_retry", "attempt": n, "max_retries": 1 << 30, "retry_delay_ms": retryPause.Milliseconds(), "error_status": 529})
}

func (c *claude) end(text string) { c.result("success", false, object{"result": text}) }

func (c *claude) refused() {
	c.result("success", true, object{"api_error_status": 401, "result": "Failed to authenticate. API Error: 401"})
}

func (c *claude) result(subtype string, failed bool, more object) {
	r := object{"type": "result", "subtype": subtype, "is_error": failed, "session_id": c.id, "total_cost_usd": 0.001, "modelUsage": object{
		"fake": object{"inputTokens": 100 * c.messages, "outputTokens": 20 * c.messages},
	}}
	maps.Copy(r, more)
	c.line(r)
}

func (c *claude) stopping(in *bufio.Reader) (stopped func()) {
	return func() {
		for {
			line, err := in.ReadString('\n')
			if strings.Contains(line, `"interrupt"`) || err != nil {
				c.result("error_during_execution", true, object{"terminal_reason": "aborted_streaming"})
				return
			}
		}
	}
}
