package assistant_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/assistant"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
)

// TestMain runs the assistant or an MCP server instead of the tests if the variable
// ASSISTANT_TEST selects it. Tests start their own binary as these programs.
func TestMain(m *testing.M) {
	switch os.Getenv("ASSISTANT_TEST") {
	case "assistant":
		os.Exit(assistant.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case "mcp":
		serveTools()
	default:
		os.Exit(m.Run())
	}
}

// world is the assistant's configuration for one test. Its work folder and session file
// are in a temporary folder.
type world struct {
	protocol.Config
	t *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, Config: protocol.Config{
		Provider: "offline", Model: "m-1", WorkDir: filepath.Join(dir, "work"), NewID: "c-1", Tries: 1,
		Session: filepath.Join(dir, "home", protocol.SessionDir, protocol.SessionFile),
	}}
	if err := os.Mkdir(w.WorkDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// config writes the configuration and returns its path.
func (w *world) config() string {
	w.t.Helper()
	b, err := json.Marshal(w.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(w.WorkDir), "config.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// run executes the assistant with a prompt in this process. It returns the lines of its
// output and its exit code.
func (w *world) run(prompt string) (lines []protocol.Line, code int) {
	w.t.Helper()
	var out, errs bytes.Buffer
	code = assistant.Main(w.t.Context(), []string{w.config()}, strings.NewReader(promptLine(prompt)), &out, &errs)
	if errs.Len() > 0 {
		w.t.Errorf("on standard error: %s", errs.String())
	}
	return parsed(w.t, &out), code
}

func promptLine(text string) string {
	b, _ := json.Marshal(protocol.Input{Type: protocol.InputPrompt, Text: text})
	return string(b) + "\n"
}

func parsed(t *testing.T, r io.Reader) (lines []protocol.Line) {
	t.Helper()
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var l protocol.Line
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatalf("a line is not JSON: %s", line)
			}
			lines = append(lines, l)
		}
		if err != nil {
			return lines
		}
	}
}

func (w *world) file(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.WorkDir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) write(name, content string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// start starts the assistant as a separate process and sends a prompt.
func (w *world) start(prompt string) (cmd *exec.Cmd, stdin io.WriteCloser, stdout *bufio.Reader) {
	w.t.Helper()
	cmd = exec.CommandContext(w.t.Context(), os.Args[0], w.config())
	cmd.Env = append(os.Environ(), "ASSISTANT_TEST=assistant")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, promptLine(prompt)); err != nil {
		w.t.Fatal(err)
	}
	return cmd, stdin, bufio.NewReader(pipe)
}

func last(lines []protocol.Line) protocol.Line {
	if len(lines) == 0 {
		return protocol.Line{}
	}
	return lines[len(lines)-1]
}

// of returns the lines with the type kind.
func of(lines []protocol.Line, kind string) (out []protocol.Line) {
	for _, l := range lines {
		if l.Type == kind {
			out = append(out, l)
		}
	}
	return out
}

func codes(lines []protocol.Line) (out []string) {
	for _, l := range of(lines, protocol.LineNotice) {
		out = append(out, l.Code)
	}
	return out
}

// scriptedModel is a Chat Completions server with scripted answers.
type scriptedModel struct {
	mu       sync.Mutex // guards the fields below
	answers  []string   // a message in JSON, STATUS|BODY, or cut|TEXT: the answer breaks off after the text
	requests []string
	url      string
}

func newScriptedModel(t *testing.T, answers ...string) *scriptedModel {
	t.Helper()
	b := &scriptedModel{answers: answers}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	b.url = s.URL + "/v1"
	return b
}

func (b *scriptedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, string(body))
	if len(b.answers) == 0 {
		http.Error(w, `{"error":{"message":"the list has ended"}}`, http.StatusTeapot)
		return
	}
	next := b.answers[0]
	b.answers = b.answers[1:]
	if code, message, ok := strings.Cut(next, "|"); ok && len(code) == 3 {
		if code == "cut" {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", message)
			return
		}
		status, _ := strconv.Atoi(code)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, message)
		return
	}
	_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":%s,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":10}}\n\n", next, len(body)/4)
}

func (b *scriptedModel) asked(i int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i >= len(b.requests) {
		return ""
	}
	return b.requests[i]
}

func says(text string) string {
	b, _ := json.Marshal(map[string]string{"content": text})
	return string(b)
}

// stops returns an answer with a finish reason. The answer completes the stream itself; what
// ServeHTTP writes after it becomes a comment of the stream.
func stops(text, reason string) string {
	return says(text) + fmt.Sprintf(`,"finish_reason":%q}],"usage":{}}`, reason) + "\n\ndata: [DONE]\n\n: "
}

// calls returns an answer that calls tools, each given by name and input.
func calls(uses ...[2]string) string {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type use struct {
		ID       string   `json:"id"`
		Function function `json:"function"`
	}
	var out []use
	for _, u := range uses {
		out = append(out, use{Function: function{u[0], u[1]}}) // calls without IDs, as some servers return them
	}
	b, _ := json.Marshal(map[string]any{"tool_calls": out})
	return string(b)
}

func (w *world) useModel(b *scriptedModel) { w.Provider, w.URL, w.Key = "openai-chat", b.url, "k" }
