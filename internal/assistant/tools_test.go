package assistant_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/assistant"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
)

func TestTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool, input, want string
		failed            bool
	}{
		"a command":                  {"bash", `{"command":"pwd -P | tail -c 5; echo err >&2"}`, "work\nerr\n", false},
		"a command that fails":       {"bash", `{"command":"echo no; exit 7"}`, "no\n(exit code 7)", true},
		"command ended by signal":    {"bash", `{"command":"kill -9 $$"}`, "\n(signal: killed)", true},
		"a silent command":           {"bash", `{"command":"true"}`, "(no output)", false},
		"slow command":               {"bash", `{"command":"echo a; sleep 1000","timeout":3}`, "a\n(stopped after its time limit of 3s)", true},
		"a background program":       {"bash", `{"command":"sleep 3 & echo on"}`, "on\n", false},
		"a file":                     {"read", `{"path":"hello.txt"}`, "one\ntwo\nthree\n", false},
		"part of a file":             {"read", `{"path":"hello.txt","offset":2,"limit":1}`, "two\n(more lines follow, from line 3)", false},
		"offset after the end":       {"read", `{"path":"hello.txt","offset":9}`, "The file has only 3 lines.", true},
		"binary file":                {"read", `{"path":"bin"}`, "bin is not a text file.", true},
		"a folder":                   {"read", `{"path":"."}`, ". is a folder; use list.", true},
		"device":                     {"read", `{"path":"/dev/zero"}`, "/dev/zero is not a file but a pipe or a device; use bash.", true},
		"missing file":               {"edit", `{"path":"/nowhere","old":"a","new":"b"}`, "open /nowhere: no such file or directory", true},
		"an empty file":              {"read", `{"path":"empty"}`, "(no output)", false},
		"a new file":                 {"write", `{"path":"x/y/z","content":"ä"}`, "Wrote 2 bytes to x/y/z.", false},
		"an edit":                    {"edit", `{"path":"hello.txt","old":"two\nthree","new":"2"}`, "Replaced 1 occurrence in hello.txt.", false},
		"edit with two matches":      {"edit", `{"path":"hello.txt","old":"e\n","new":"E\n"}`, "The old text occurs in hello.txt 2 times. Include more context, or set all.", true},
		"edit of all occurrences":    {"edit", `{"path":"hello.txt","old":"e\n","new":"E\n","all":true}`, "Replaced 2 occurrences in hello.txt.", false},
		"edit without a match":       {"edit", `{"path":"hello.txt","old":"four","new":""}`, "The old text is not in hello.txt. Read the file again.", true},
		"edit of an empty text":      {"edit", `{"path":"hello.txt","old":"","new":"x"}`, "The old text is empty; use write for a new file.", true},
		"a list":                     {"list", `{}`, "bin  3\nempty  0\nhello.txt  14\nlink  (link)\nsub/\n", false},
		"a deep list":                {"list", `{"path":"sub","depth":2}`, "deep/\ndeep/d.go  13\ns.go  10\n", false},
		"a list through a link":      {"list", `{"path":"../way"}`, "deep/\ns.go  10\n", false},
		"list of a file":             {"list", `{"path":"link"}`, "link is not a folder; use read.", true},
		"list of a missing folder":   {"list", `{"path":"/nowhere"}`, "lstat /nowhere: no such file or directory", true},
		"a search":                   {"search", `{"pattern":"(?i)FUNC \\w","glob":"*.go"}`, "sub/deep/d.go:2: func d() {\nsub/s.go:1: func s() {\n", false},
		"a search in a file":         {"search", `{"pattern":"^t","path":"hello.txt"}`, "hello.txt:2: two\nhello.txt:3: three\n", false},
		"a search through a link":    {"search", `{"pattern":"func","path":"../way","glob":"s*"}`, "s.go:1: func s() {\n", false},
		"a search in a linked file":  {"search", `{"pattern":"^two","path":"link"}`, "hello.txt:2: two\n", false},
		"search in a missing folder": {"search", `{"pattern":"x","path":"/nowhere"}`, "lstat /nowhere: no such file or directory", true},
		"search without a match":     {"search", `{"pattern":"zzz"}`, "(no match)", false},
		"bad pattern":                {"search", `{"pattern":"("}`, "The pattern is not a regular expression: error parsing regexp: missing closing ): `(`.", true},
		"missing command":            {"bash", `{"timeout":1}`, "The input lacks 'command'.", true},
		"write without content":      {"write", `{"path":"hello.txt"}`, "The input lacks 'content'.", true},
		"a write of null":            {"write", `{"path":"hello.txt","content":null}`, "The input lacks 'content'.", true},
		"write of empty content":     {"write", `{"path":"hello.txt","content":""}`, "Wrote 0 bytes to hello.txt.", false},
		"edit without a new text":    {"edit", `{"path":"hello.txt","old":"two"}`, "The input lacks 'new'.", true},
		"edit to an empty text":      {"edit", `{"path":"hello.txt","old":"two","new":""}`, "Replaced 1 occurrence in hello.txt.", false},
		"unknown tool":               {"fly", `{}`, `There is no tool "fly".`, true},
		"input of a wrong type":      {"bash", `{"command":7}`, "The input does not fit the tool's schema: json: cannot unmarshal number into Go struct field .Command of type string.", true},
		"input is not an object":     {"bash", `{"command":`, `The input is not a JSON object; perhaps the answer was cut at its maximum length. It began: {"command":`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			in := func(name string) string { return filepath.Join(w.WorkDir, name) }
			w.write(in("hello.txt"), "one\ntwo\nthree\n")
			w.write(in("empty"), "")
			w.write(in("bin"), "a\x00b")
			w.write(in("sub/s.go"), "func s() {")
			w.write(in("sub/deep/d.go"), "\nfunc d() {\n}")
			for link, to := range map[string]string{"link": "hello.txt", "../way": "work/sub"} {
				if err := os.Symlink(to, in(link)); err != nil {
					t.Fatal(err)
				}
			}
			w.useModel(newScriptedModel(t, calls([2]string{c.tool, c.input}), says("Done.")))
			lines, _ := w.run("go")
			got := last(of(lines, protocol.LineResult))
			if got.Tool == nil || got.Text != c.want || (got.Tool.Status == stint.ToolFailed) != c.failed {
				t.Errorf("gave %q, %+v", got.Text, got.Tool)
			}
			if c.failed && w.file("hello.txt") != "one\ntwo\nthree\n" {
				t.Error("a failed tool changed the file")
			}
		})
	}
}

func TestToolResultsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(filepath.Join(w.WorkDir, "long"), strings.Repeat("word\n", 100_000))
	w.write(filepath.Join(w.WorkDir, "wide"), strings.Repeat("word ", 100_000))
	for i := range 1100 {
		w.write(filepath.Join(w.WorkDir, "many", fmt.Sprint(i)), "")
	}
	uses := [][2]string{
		{"bash", `{"command":"cat long"}`},
		{"bash", `{"command":"cat wide"}`},
		{"read", `{"path":"long"}`},
		{"read", `{"path":"wide"}`},
		{"list", `{"path":"many"}`},
		{"search", `{"pattern":"word"}`},
	}
	w.useModel(newScriptedModel(t, calls(uses...), says("Done.")))
	lines, _ := w.run("go")
	results := of(lines, protocol.LineResult)
	if len(results) != len(uses) {
		t.Fatalf("%d results", len(results))
	}
	for i, l := range results {
		if len(l.Text) > 33<<10 || len(l.Text) < 1000 || !l.Tool.Truncated && uses[i][1] != `{"path":"wide"}` {
			t.Errorf("%v gave %d bytes, %+v: … %s", uses[i], len(l.Text), l.Tool, l.Text[len(l.Text)-60:])
		}
	}
}

// While a command prints nothing, the assistant writes a line of type working each minute,
// and none after the command has ended.
func TestSilentCommandReportsWorking(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	heard, out := io.Pipe()
	defer heard.Close()
	lines, minutes, gave := bufio.NewReader(heard), make(chan time.Time), make(chan string, 1)
	go func() {
		gave <- assistant.Use(t.Context(), dir, out, minutes, "bash", `{"command":"cat fifo","timeout":20}`)
		out.Close()
	}()
	for range 2 {
		select {
		case minutes <- time.Time{}:
		case text := <-gave:
			t.Fatalf("the command ended: %s", text)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != `{"type":"working"}`+"\n" {
			t.Fatalf("heard %q, error %v", line, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "fifo"), []byte("done"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := <-gave; text != "done" {
		t.Errorf("the command gave %q", text)
	}
	select {
	case minutes <- time.Time{}:
		t.Error("minutes are counted after the command")
	default:
	}
}

type greeting struct {
	Name string `json:"name"`
}

func toolServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "hello"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets."}, func(_ context.Context, _ *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, any, error) {
		if in.Name == "" {
			return nil, nil, fmt.Errorf("no name to greet")
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello, " + in.Name + os.Getenv("GREETING_END")}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: strings.Repeat("long.", 20)}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]int, error) {
		return nil, map[string]int{"n": 1}, nil
	})
	return s
}

func serveTools() {
	if err := toolServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestMCPServers(t *testing.T) {
	t.Parallel()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return toolServer() }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer it" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	w := newWorld(t)
	w.MCP = []protocol.MCPServer{
		{Name: "away", URL: "http://127.0.0.1:1/mcp"},
		{Name: "broken", Command: []string{"/bin/sh", "-c", "echo it hurts >&2; exit 1"}},
		{Name: "here", Command: []string{os.Args[0]}, Env: map[string]string{"ASSISTANT_TEST": "mcp", "GREETING_END": "!"}},
		{Name: "locked", URL: web.URL},
		{Name: "web", URL: web.URL, Headers: map[string]string{"Authorization": "Bearer it"}},
	}
	b := newScriptedModel(t, calls([2]string{"mcp__here__greet", `{"name":"Ann"}`}, [2]string{"mcp__web__greet", `{"name":"Bob"}`}, [2]string{"mcp__web__greet", `{"name":""}`}), says("Done."))
	w.useModel(b)
	lines, code := w.run("go")
	if code != 0 {
		t.Fatalf("%+v", last(lines))
	}
	var results []string
	for _, l := range of(lines, protocol.LineResult) {
		results = append(results, l.Tool.Status+": "+l.Text)
	}
	if d := cmp.Diff([]string{"completed: Hello, Ann!", "completed: Hello, Bob", "failed: no name to greet"}, results); d != "" {
		t.Error(d)
	}
	var notices []string
	for _, l := range of(lines, protocol.LineNotice) {
		notices = append(notices, l.Text)
	}
	slices.Sort(notices)
	for i, name := range []string{"'away'", "'broken'", "'locked'"} {
		if i >= len(notices) || !strings.Contains(notices[i], name) {
			t.Errorf("notices %q", notices)
		}
	}
	if len(notices) != 3 || !strings.Contains(notices[1], "it hurts") {
		t.Errorf("notices %q", notices)
	}
	if !strings.Contains(b.asked(0), `"name":"mcp__here__long_long_`) || !strings.Contains(b.asked(0), `"description":"Greets."`) {
		t.Errorf("the request contains %s", b.asked(0))
	}
}
