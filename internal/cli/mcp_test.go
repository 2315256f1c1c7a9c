package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint/internal/cli"
)

// An MCP client uses 'stint mcp' through its standard input and output, and ends the
// program by closing its input.
func TestMCPOnStandardStreams(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer hush" {
			t.Errorf("the token is %q", r.Header.Get("Authorization"))
		}
		if r.URL.Path != "/v1/volumes" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"type":"not_found_error","code":"resource_not_found","message":"No such run: 'run_x'."}}`)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"vol_1","name":"texts","currentVersionId":null,"size":0,"fileCount":0,"createdAt":"2026-01-02T15:04:05.000Z","updatedAt":"2026-01-02T15:04:05.000Z"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	}))
	defer api.Close()
	environ := map[string]string{"STINT_URL": api.URL, "STINT_TOKEN": "hush", "HOME": t.TempDir()}
	in, toProgram := io.Pipe()
	fromProgram, out := io.Pipe()
	told := newScreenBuffer()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(context.WithoutCancel(t.Context()), cli.Env{
			Args: []string{"mcp"}, Stdin: in, Stdout: out, Stderr: told, Dir: "/", Now: time.Now,
			Environ:    func(name string) (string, bool) { v, ok := environ[name]; return v, ok },
			IsTerminal: func(int) bool { return false },
		})
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.IOTransport{Reader: fromProgram, Writer: toProgram}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]string{"list_volumes": `"name":"texts"`, "get_run": "No such run: 'run_x'."} {
		arguments := map[string]any{}
		if tool == "get_run" {
			arguments["id"] = "run_x"
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		text, ok := res.Content[0].(*mcp.TextContent)
		if !ok || !strings.Contains(text.Text, want) || res.IsError != (tool == "get_run") {
			raw, _ := json.Marshal(res)
			t.Errorf("%s gave %s, want %s", tool, raw, want)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if code := <-ended; code != 0 || told.String() != "" {
		t.Errorf("the program ended with the exit code %d and wrote %q to stderr", code, told)
	}
}
