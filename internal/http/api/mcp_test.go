package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/http/api"
)

// mcpClient is a client of POST /mcp.
type mcpClient struct {
	*world
	*mcp.ClientSession
	notices chan string // the messages of progress notifications
}

// bearerTransport adds a token to requests.
type bearerTransport struct {
	token string
	next  http.RoundTripper
}

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func (w *world) tools(token string) *mcpClient {
	w.Helper()
	t := &mcpClient{world: w, notices: make(chan string, 100)}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { t.notices <- r.Params.Message },
	})
	session, err := c.Connect(w.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: bearerTransport{token, w.client.Transport}}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = session.Close() })
	t.ClientSession = session
	return t
}

// use calls a tool and decodes its structured result. The text of the result must
// contain the same JSON.
func (t *mcpClient) use(name string, arguments, into any) {
	t.Helper()
	res, err := t.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		t.Fatalf("%s %v: %s", name, arguments, text)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var structured, repeated any
	if json.Unmarshal(raw, &structured) != nil || json.Unmarshal([]byte(text), &repeated) != nil || !cmp.Equal(structured, repeated) {
		t.Errorf("%s: the text %s differs from the structured content %s", name, text, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// checkRefused calls a tool and checks that it returns an error that contains the words.
func (t *mcpClient) checkRefused(name string, arguments any, words ...string) {
	t.Helper()
	res, err := t.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	text := res.Content[0].(*mcp.TextContent).Text
	for _, word := range words {
		if !res.IsError || !strings.Contains(text, word) {
			t.Errorf("%s %v returned %q, want an error with %q", name, arguments, text, word)
		}
	}
}

type (
	args    = map[string]any
	started struct{ ID, Status, SessionID string }
	output  struct {
		Text, Next, Status string
		More               bool
	}
	waited struct {
		Ended bool
		Run   stint.Run
	}
)

func TestListTools(t *testing.T) {
	w := newWorld(t)
	list, err := w.tools(w.token).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names, readOnly []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Annotations.ReadOnlyHint {
			readOnly = append(readOnly, tool.Name)
		}
		if tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations.Title == "" {
			t.Errorf("%s has no description, schema, or title", tool.Name)
		}
		checkToolSchema(t, tool.Name, tool.InputSchema)
		checkToolSchema(t, tool.Name, tool.OutputSchema)
	}
	if d := cmp.Diff([]string{
		"cancel_run", "get_run", "list_agents", "list_artifact_files", "list_artifacts", "list_volumes", "read_artifact_file", "run_agent", "run_output", "wait_run",
	}, names); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
	if d := cmp.Diff(slices.DeleteFunc(names, func(n string) bool { return n == "cancel_run" || n == "run_agent" }), readOnly); d != "" {
		t.Errorf("read-only tools (-want +got):\n%s", d)
	}
}

// checkToolSchema checks a schema against the rules of strict clients: it describes an
// object, and the schema of each member is an object.
func checkToolSchema(t *testing.T, name string, schema any) {
	t.Helper()
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Type       any
		Properties map[string]any
	}
	if err := json.Unmarshal(raw, &s); err != nil || s.Type != "object" {
		t.Errorf("%s: a schema of the type %v, %v", name, s.Type, err)
	}
	for member, of := range s.Properties {
		if _, ok := of.(map[string]any); !ok {
			t.Errorf("%s: the schema of %s is %v", name, member, of)
		}
	}
}

func TestRunTools(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/agents", args{"name": "reviewer", "framework": "shell", "description": "Reviews changes."}, http.StatusCreated, &stint.Agent{})
	w.newAgent("another")
	c := w.tools(w.token)
	var first, second struct {
		Agents     []struct{ ID, Name, Description, Framework string }
		NextCursor string
	}
	c.use("list_agents", args{"limit": 1}, &first)
	c.use("list_agents", args{"limit": 1, "cursor": first.NextCursor}, &second)
	if a := second.Agents; len(a) != 1 || a[0].Name != "reviewer" || a[0].Description != "Reviews changes." || a[0].Framework != "shell" || second.NextCursor != "" {
		t.Errorf("the second page is %+v", second)
	}

	var run started
	c.use("run_agent", args{"agent": "reviewer", "prompt": "look", "metadata": args{"by": "tool"}, "secrets": args{"KEY": "hush-hush"}}, &run)
	if run.Status != "pending" || run.SessionID == "" {
		t.Errorf("the started run is %+v", run)
	}
	var now waited
	c.use("wait_run", args{"id": run.ID, "timeoutSeconds": 0}, &now)
	if now.Ended || now.Run.Status != stint.Pending {
		t.Errorf("without a wait the run is %+v", now)
	}
	j := w.claim()
	j.write("one ", "zwölf\n", "three\n")
	params := &mcp.CallToolParams{Name: "wait_run", Arguments: args{"id": run.ID}}
	params.SetProgressToken("p")
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), params)
		ended <- err
	}()
	if notice := <-c.notices; notice != "running: three" {
		t.Errorf("the notification is %q", notice)
	}
	j.finish(stint.Completed)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var after stint.Run
	c.use("get_run", args{"id": run.ID}, &after)
	if after.Status != stint.Completed || after.Metadata["by"] != "tool" {
		t.Errorf("the run is %+v", after)
	}

	var text, next string
	pieces := 0
	for more := true; more; pieces++ {
		var o output
		c.use("run_output", args{"id": run.ID, "after": next, "maxBytes": 7}, &o)
		text, next, more = text+o.Text, o.Next, o.More
		if len(o.Text) > 7 {
			t.Errorf("a piece has %d bytes: %q", len(o.Text), o.Text)
		}
	}
	if text != "one zwölf\nthree\n" || pieces != 3 {
		t.Errorf("the output is %q in %d pieces", text, pieces)
	}
	c.checkRefused("run_output", args{"id": run.ID, "after": "x"}, "'after' must be")
	c.checkRefused("cancel_run", args{"id": run.ID}, "completed")
}

func TestFileTools(t *testing.T) {
	w := newWorld(t)
	var artifact stint.FileSet
	w.post("/v1/artifacts", args{"name": "out"}, http.StatusCreated, &artifact)
	w.post("/v1/volumes", args{"name": "data"}, http.StatusCreated, &stint.FileSet{})
	files := map[string]string{"src/a.txt": "zwölf Boxkämpfer", "b.bin": "\x00\x01\xff", "empty": ""}
	w.decode(w.do(request{method: "POST", path: "/v1/artifacts/" + artifact.ID + "/versions", body: archive(w, files)}), http.StatusCreated, &stint.FileSetVersion{})
	c := w.tools(w.token)
	var trees struct{ Artifacts, Volumes []struct{ Name string } }
	c.use("list_artifacts", args{}, &trees)
	c.use("list_volumes", args{}, &trees)
	if len(trees.Artifacts) != 1 || trees.Artifacts[0].Name != "out" || len(trees.Volumes) != 1 || trees.Volumes[0].Name != "data" {
		t.Errorf("the lists are %+v", trees)
	}
	var listed struct{ Files []struct{ Path string } }
	c.use("list_artifact_files", args{"artifact": "out", "prefix": "src/"}, &listed)
	if len(listed.Files) != 1 || listed.Files[0].Path != "src/a.txt" {
		t.Errorf("the files below src/ are %+v", listed)
	}
	type part struct {
		Text, Base64 string
		Size         int64
		Next         *int64
	}
	var p part
	c.use("read_artifact_file", args{"artifact": "out", "path": "src/a.txt", "maxBytes": 3}, &p)
	next := int64(2)
	if d := cmp.Diff(part{Text: "zw", Size: 18, Next: &next}, p); d != "" {
		t.Errorf("the beginning (-want +got):\n%s", d)
	}
	p = part{}
	c.use("read_artifact_file", args{"artifact": artifact.ID, "version": "1", "path": "src/a.txt", "offset": 2}, &p)
	if d := cmp.Diff(part{Text: "ölf Boxkämpfer", Size: 18}, p); d != "" {
		t.Errorf("the rest (-want +got):\n%s", d)
	}
	p = part{}
	c.use("read_artifact_file", args{"artifact": "out", "path": "b.bin"}, &p)
	if d := cmp.Diff(part{Base64: base64.StdEncoding.EncodeToString([]byte(files["b.bin"])), Size: 3}, p); d != "" {
		t.Errorf("the binary file (-want +got):\n%s", d)
	}
	p = part{}
	c.use("read_artifact_file", args{"artifact": "out", "path": "empty"}, &p)
	if d := cmp.Diff(part{}, p); d != "" {
		t.Errorf("the empty file (-want +got):\n%s", d)
	}
	c.checkRefused("read_artifact_file", args{"artifact": "out", "path": "none"}, "none")
	c.checkRefused("read_artifact_file", args{"artifact": "other", "path": "x"}, "No such artifact: 'other'")
	c.checkRefused("read_artifact_file", args{"artifact": "out", "path": "x", "maxBytes": 1 << 20}, "maxBytes")
}

// TestFileToolWithDamagedFile checks that a file that cannot be read completely is an
// error of the tool and does not affect other calls.
func TestFileToolWithDamagedFile(t *testing.T) {
	w := newWorld(t)
	var artifact stint.FileSet
	w.post("/v1/artifacts", args{"name": "out"}, http.StatusCreated, &artifact)
	random := make([]byte, 1<<20)
	_, _ = rand.New(rand.NewSource(1)).Read(random)
	w.decode(w.do(request{method: "POST", path: "/v1/artifacts/" + artifact.ID + "/versions", body: archive(w, map[string]string{"a.bin": string(random)})}), http.StatusCreated, &stint.FileSetVersion{})
	w.damage()
	c := w.tools(w.token)
	c.checkRefused("read_artifact_file", args{"artifact": "out", "path": "a.bin"}, "cut off")
	var listed struct{ Artifacts []struct{ Name string } }
	if c.use("list_artifacts", args{}, &listed); len(listed.Artifacts) != 1 {
		t.Errorf("afterwards the artifacts are %v", listed)
	}
}

// damage overwrites a part of every large stored file.
func (w *world) damage() {
	w.Helper()
	damaged := 0
	err := filepath.WalkDir(w.blobs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil || len(raw) < 64<<10 {
			return err
		}
		clear(raw[100 : len(raw)-16<<10])
		damaged++
		return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, raw, 0o600))
	})
	if err != nil || damaged == 0 {
		w.Fatalf("%d files damaged, %v", damaged, err)
	}
}

func TestToolErrors(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	foreign := w.tools(words["other"])
	for _, tool := range []string{"get_run", "wait_run", "cancel_run", "run_output"} {
		foreign.checkRefused(tool, args{"id": words["run"]}, "No such run: '"+words["run"]+"'")
	}
	foreign.checkRefused("run_agent", args{"agentId": words["agent"], "prompt": "x"}, words["agent"])
	foreign.checkRefused("list_artifact_files", args{"artifact": words["artifact"]}, words["artifact"])
	reader := w.tools(words["reader"])
	reader.checkRefused("run_agent", args{"agent": "reviewer", "prompt": "x"}, "scope 'write'")
	reader.checkRefused("run_agent", args{"agent": "reviewer"}, "prompt")
	reader.checkRefused("list_agents", args{"limit": 1000}, "limit")
	var all struct{ Agents []any }
	if reader.use("list_agents", nil, &all); len(all.Agents) != 1 {
		t.Errorf("a token with the scope read lists %v", all)
	}
}

func TestMCPMessages(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.PublicURL = "https://stint.example" })
	words := w.fixture()
	const ping, eventStream = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "text/event-stream"
	from := func(origin string) map[string]string { return map[string]string{"Origin": origin} }
	accept := func(v string) map[string]string { return map[string]string{"Accept": v} }
	post := func(name, token string, header map[string]string, body any, status int, has ...string) row {
		return row{name, "POST", "/mcp", token, header, body, status, has, nil}
	}
	w.run(t, words, []row{
		post("ping", "", nil, ping, 200, "event: message", `"id":1`, `"result":{}`),
		post("a notification", "", nil, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202),
		post("both forms", "reader", accept("application/json, text/event-stream"), ping, 200),
		post("no token", "-", nil, ping, 401, badKey),
		post("the prefix of a token", "stint_live_", nil, ping, 401, badKey),
		post("an invented token of a run", "stint_run_AAAAAAAAAAAAAAAAAAAAAAAAAAAA", nil, ping, 401, badKey),
		post("only JSON accepted", "", accept("application/json"), ping, 406, "not_acceptable"),
		post("only event streams accepted", "", accept(eventStream), ping, 406, "not_acceptable"),
		post("text", "", map[string]string{"Content-Type": "text/plain"}, ping, 415, media),
		post("no JSON", "", nil, `{`, 400, invalid),
		post("several at once", "", nil, `[`+ping+`]`, 400, invalid, "object"),
		post("no message", "", nil, `{"id":1}`, 400, invalid),
		post("an unknown method", "", nil, `{"jsonrpc":"2.0","id":1,"method":"nothing/here"}`, 400, invalid, "nothing/here"),
		post("an unknown version", "", map[string]string{"Mcp-Protocol-Version": "1999-01-01"}, ping, 400, invalid, "version"),
		post("too large", "", nil, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`, 413, "request_too_large"),
		post("a page of another origin", "", from("https://evil.example"), ping, 403, `"code":"origin_not_allowed"`),
		post("a page of the server", "", from("https://stint.example"), ping, 200),
		post("an unknown tool", "", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none","arguments":{}}}`, 200, `"error"`),
	})
	for _, method := range []string{"GET", "DELETE", "PUT"} {
		a := w.do(request{method: method, path: "/mcp", hostile: true})
		if a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "POST" || a.errorOf() != "invalid_request_error method_not_allowed" {
			t.Errorf("%s returned %d, Allow %q, %s", method, a.StatusCode, a.Header.Get("Allow"), a.body)
		}
	}
}

// blockingRuns is an api.Runs whose method Wait blocks until its context ends.
type blockingRuns struct {
	api.Runs
	began, ended chan struct{} // closed when the first Wait begins and ends
	begin, end   sync.Once
}

func newBlockingRuns() *blockingRuns {
	return &blockingRuns{began: make(chan struct{}), ended: make(chan struct{})}
}

func (p *blockingRuns) Wait(ctx context.Context, _ auth.Caller, _ string, _ time.Duration) (stint.Run, error) {
	p.begin.Do(func() { close(p.began) })
	<-ctx.Done()
	p.end.Do(func() { close(p.ended) })
	return stint.Run{}, ctx.Err()
}

func TestWaitEndsWhenClientDisconnects(t *testing.T) {
	p := newBlockingRuns()
	w := newWorld(t, func(c *api.Config) { p.Runs, c.Runs = c.Runs, p })
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	ctx, disconnect := context.WithCancel(t.Context())
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_run","arguments":{"id":"` + run.ID + `","timeoutSeconds":60}}}`
	failed := make(chan error, 1)
	go func() {
		_, err := w.client.Do(w.build(ctx, request{method: "POST", path: "/mcp", body: body}))
		failed <- err
	}()
	<-p.began
	disconnect()
	<-p.ended
	if err := <-failed; err == nil {
		t.Error("a cancelled request returned a response")
	}
}

func TestWaitEndsWhenServerStops(t *testing.T) {
	p := newBlockingRuns()
	w := newWorld(t, func(c *api.Config) { p.Runs, c.Runs = c.Runs, p })
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	c := w.tools(w.token)
	params := &mcp.CallToolParams{Name: "wait_run", Arguments: args{"id": run.ID, "timeoutSeconds": 60}}
	params.SetProgressToken("p")
	ended := make(chan *mcp.CallToolResult, 1)
	go func() {
		res, _ := c.CallTool(t.Context(), params)
		ended <- res
	}()
	if notice := <-c.notices; notice != "pending" {
		t.Errorf("the notification is %q", notice)
	}
	<-p.began
	w.stop()
	if res := <-ended; res == nil || res.IsError {
		t.Errorf("the wait ended with %+v", res)
	}
}
