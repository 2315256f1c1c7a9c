package agents_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// runsOfOtherAgents checks that an agent with access to the API can run other agents,
// up to the maximum depth of the server.
func runsOfOtherAgents(w *tenant) {
	_, err := w.client.Secrets.Put(w.Context(), "MODEL_KEY", stint.NewSecret{Value: modelKey}) // a stored secret is also available to child runs
	installation.Check(w, err)
	w.push(object{"name": "echo", "framework": "shell", "description": "Repeats its prompt."})
	w.agent("caller", object{"mcpServers": object{"stint": object{"url": "http://" + stint.APIAlias + "/mcp"}}})
	below, err := json.Marshal(object{"agent": "caller", "prompt": `below-word. [[tool: run_agent {"agent":"echo","prompt":"echo too deep"}]]`})
	installation.Check(w, err)
	r := w.ended(w.create(stint.NewRun{
		Agent: "caller", Secrets: map[string]string{},
		Prompt: `above-word. [[tool: list_agents {}]] [[tool: run_agent {"agent":"echo","prompt":"echo from-inside"}]] [[tool: run_agent ` + string(below) + `]]`,
	}).ID)
	if r.Status != stint.Completed || !strings.Contains(w.transcript(r.ID), "Repeats its prompt.") {
		w.Fatalf("the caller is %s; %s", r.Status, w.story(r.ID))
	}

	echoed := w.ended(w.onlyRun("echo"))
	if echoed.Status != stint.Completed || installation.Value(echoed.ParentRunID) != r.ID || w.transcript(echoed.ID) != "from-inside\n" {
		w.Errorf("the child run is %s, its parent is %s, its transcript is %q; want the parent %s", echoed.Status, installation.Value(echoed.ParentRunID), w.transcript(echoed.ID), r.ID)
	}
	for _, run := range w.runs("caller") {
		if run.ID == r.ID {
			continue
		}
		deep := w.ended(run.ID)
		if installation.Value(deep.ParentRunID) != r.ID || !strings.Contains(w.transcript(deep.ID), "chain of runs is too deep") {
			w.Errorf("the run at the maximum depth could start another; %s", w.story(deep.ID))
		}
	}
	if n := len(w.runs("")); n != 3 {
		w.Errorf("there are %d runs", n)
	}
}

// runs returns the runs of an agent, or all runs of the organisation if agent is empty.
func (w *tenant) runs(agent string) []stint.RunSummary {
	w.Helper()
	var out []stint.RunSummary
	for r, err := range w.client.Runs.List(w.Context(), client.RunFilter{}) {
		installation.Check(w, err)
		if agent == "" || r.AgentName == agent {
			out = append(out, r)
		}
	}
	return out
}

// onlyRun returns the ID of the only run of an agent.
func (w *tenant) onlyRun(agent string) string {
	w.Helper()
	all := w.runs(agent)
	if len(all) != 1 {
		w.Fatalf("there are %d runs of %s, not one", len(all), agent)
	}
	return all[0].ID
}

const docsToken = "sk-live-d0c5d0c5d0c51234"

// externalServer checks that an agent can use an external MCP server, and that the
// sandbox does not contain the token of this server.
func externalServer(w *tenant) {
	docs := serveDocs(w)
	w.agent("reader", object{
		"mcpServers": object{"docs": object{"url": onHost(docs.URL) + "/mcp", "headers": object{"Authorization": "Bearer ${{ secrets.DOCS_TOKEN }}"}}},
		"network":    object{"mode": "restricted", "allow": []string{hostOf(onHost(w.model.URL)), hostOf(onHost(docs.URL))}},
	})
	r := w.run(stint.NewRun{
		Agent: "reader", ArtifactName: "found", Secrets: map[string]string{"MODEL_KEY": modelKey, "DOCS_TOKEN": docsToken},
		Prompt: `[[tool: look_up {"word":"stint"}]] [[run: ` + search + `]]`,
	})
	if !strings.Contains(w.transcript(r.ID), "stint: a time of work") {
		w.Errorf("the tool did not return a result; %s", w.story(r.ID))
	}
	docs.mu.Lock()
	tokens := slices.Compact(docs.tokens)
	docs.mu.Unlock()
	if !slices.Equal(tokens, []string{"Bearer " + docsToken}) {
		w.Errorf("the server received the tokens %q", tokens)
	}
	w.checkFile(r, "keys.txt", "")
	w.checkAbsent(r, docsToken)
}

// docsServer is an MCP server that records the Authorization header of each request.
type docsServer struct {
	URL    string
	mu     sync.Mutex // guards tokens
	tokens []string
}

func serveDocs(w *tenant) *docsServer {
	w.Helper()
	type words struct {
		Word string `json:"word"`
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "1.0.0"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "look_up", Description: "Looks a word up."}, func(_ context.Context, _ *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Word + ": a time of work"}}}, nil, nil
	})
	tools := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	d := &docsServer{}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.tokens = append(d.tokens, r.Header.Get("Authorization"))
		d.mu.Unlock()
		r.Host = "127.0.0.1" // the MCP server refuses requests with another name of this machine
		tools.ServeHTTP(rw, r)
	}))
	w.Cleanup(srv.Close)
	d.URL = srv.URL
	return d
}
