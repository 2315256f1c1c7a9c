package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

const (
	maxWait       = 60  // seconds, for one wait_run
	progressEvery = 5   // seconds between progress notifications
	maxNotice     = 200 // bytes of an agent's message in a progress notification
)

type pageIn struct {
	Limit  int    `json:"limit,omitempty" jsonschema:"maximum number of items"`
	Cursor string `json:"cursor,omitempty" jsonschema:"nextCursor of the previous page; omit for the first"`
}

func (p pageIn) options() *client.PageOptions {
	return &client.PageOptions{Limit: p.Limit, Cursor: p.Cursor}
}

// pageOut is the part of a result that refers to the next page.
type pageOut struct {
	NextCursor string `json:"nextCursor,omitempty" jsonschema:"asks for the next page; missing on the last"`
}

func next(p stint.Pagination) (out pageOut) {
	if p.NextCursor != nil {
		out.NextCursor = *p.NextCursor
	}
	return out
}

type agentOut struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty" jsonschema:"purpose of the agent"`
	Framework   string     `json:"framework,omitempty" jsonschema:"what drives the agent; shell runs the prompt as a bash script"`
	UpdatedAt   stint.Time `json:"updatedAt"`
}

type agentsOut struct {
	Agents []agentOut `json:"agents"`
	pageOut
}

type runIn struct {
	Agent           string            `json:"agent,omitempty" jsonschema:"name of the agent to start"`
	AgentID         string            `json:"agentId,omitempty" jsonschema:"ID of the agent to start, instead of its name"`
	SessionID       string            `json:"sessionId,omitempty" jsonschema:"session to continue: the agent remembers it and finds its files"`
	CheckpointID    string            `json:"checkpointId,omitempty" jsonschema:"checkpoint to go back to, in a new session"`
	Prompt          string            `json:"prompt" jsonschema:"the task for the agent"`
	Variables       map[string]string `json:"variables,omitempty" jsonschema:"environment variables of the agent, by name"`
	Secrets         map[string]string `json:"secrets,omitempty" jsonschema:"SENSITIVE: secret values by name, which the conversation that makes this call records. Prefer secrets that are stored on the server"`
	Volumes         map[string]string `json:"volumes,omitempty" jsonschema:"version to mount of each volume, by the volume's name: latest, v3 or an ID"`
	ArtifactName    string            `json:"artifactName,omitempty" jsonschema:"artifact that stores the working directory"`
	ArtifactVersion string            `json:"artifactVersion,omitempty" jsonschema:"version of the artifact to start from; needs artifactName"`
	Timeout         string            `json:"timeout,omitempty" jsonschema:"time limit such as 90s or 30m, at most the agent's"`
	Metadata        map[string]string `json:"metadata,omitempty" jsonschema:"up to 16 labels to find the run by"`
}

type startedOut struct {
	ID        string       `json:"id" jsonschema:"ID of the run, for wait_run, run_output and get_run"`
	Status    stint.Status `json:"status"`
	SessionID string       `json:"sessionId" jsonschema:"continues this conversation when given to run_agent"`
}

type runID struct {
	ID string `json:"id" jsonschema:"ID of the run"`
}

type waitIn struct {
	ID             string `json:"id" jsonschema:"ID of the run"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty" jsonschema:"maximum time to wait"`
}

type waitedOut struct {
	Ended bool      `json:"ended" jsonschema:"whether the run has ended; if not, call again"`
	Run   stint.Run `json:"run"`
}

func addRunTools(s *sdk.Server) {
	yes := true
	add(s, &sdk.Tool{
		Name: "list_agents", Annotations: readOnly("List agents"),
		Description: "List the agents that can be run, newest first, with their purposes.",
	}, schemaOf[pageIn](paged), listAgents)
	add(s, &sdk.Tool{
		Name: "run_agent", Annotations: &sdk.ToolAnnotations{Title: "Run an agent", DestructiveHint: &yes, OpenWorldHint: &yes},
		Description: "Start a run of an agent and return at once with its ID; the run continues in the background. " +
			"Name one of agent, agentId, sessionId or checkpointId. Each call starts another run. Call wait_run for its result.",
	}, schemaOf[runIn](nil), runAgent)
	add(s, &sdk.Tool{
		Name: "get_run", Annotations: readOnly("Get a run"),
		Description: "Read a run: its status, result, error, usage, and the versions of the files that it used and made.",
	}, schemaOf[runID](nil), func(ctx context.Context, c call, in runID) (*stint.Run, error) { return c.Runs.Get(ctx, in.ID) })
	add(s, &sdk.Tool{
		Name: "wait_run", Annotations: readOnly("Wait for a run"),
		Description: "Wait until a run has ended, or for timeoutSeconds, and read it. If \"ended\" is false, the run is still active: call again.",
	}, schemaOf[waitIn](func(p properties) { p.between("timeoutSeconds", 0, maxWait, 30) }), waitRun)
	add(s, &sdk.Tool{
		Name: "cancel_run", Annotations: &sdk.ToolAnnotations{Title: "Cancel a run", DestructiveHint: &yes, IdempotentHint: true},
		Description: "End a pending or running run. It is an error when the run has ended already.",
	}, schemaOf[runID](nil), func(ctx context.Context, c call, in runID) (*stint.Run, error) { return c.Runs.Cancel(ctx, in.ID) })
	add(s, &sdk.Tool{
		Name: "run_output", Annotations: readOnly("Read a run's output"),
		Description: "Read what the agent of a run has written so far, from the beginning, or from \"next\" of the call before.",
	}, schemaOf[outputIn](func(p properties) { p.between("maxBytes", 1, maxText, maxText) }), runOutput)
}

func listAgents(ctx context.Context, c call, in pageIn) (agentsOut, error) {
	page, err := c.Agents.Page(ctx, in.options())
	if err != nil {
		return agentsOut{}, err
	}
	out := agentsOut{Agents: make([]agentOut, len(page.Data)), pageOut: next(page.Pagination)}
	for i, a := range page.Data {
		v, err := c.Agents.Version(ctx, a.ID, a.CurrentVersionID)
		if client.IsCode(err, stint.CodeResourceNotFound) { // the agent was deleted after it was listed
			v, err = &stint.AgentVersion{Definition: json.RawMessage("{}")}, nil
		}
		if err != nil {
			return agentsOut{}, err
		}
		var d struct{ Description, Framework string }
		if err := json.Unmarshal(v.Definition, &d); err != nil {
			return agentsOut{}, fmt.Errorf("read the definition of %s: %w", a.Name, err)
		}
		out.Agents[i] = agentOut{a.ID, a.Name, d.Description, d.Framework, a.UpdatedAt}
	}
	return out, nil
}

func runAgent(ctx context.Context, c call, in runIn) (startedOut, error) {
	run, err := c.Runs.Create(ctx, stint.NewRun{
		Agent: in.Agent, AgentID: in.AgentID, SessionID: in.SessionID, CheckpointID: in.CheckpointID, Prompt: in.Prompt,
		Variables: in.Variables, Secrets: in.Secrets, Volumes: in.Volumes, ArtifactName: in.ArtifactName, ArtifactVersion: in.ArtifactVersion,
		Timeout: in.Timeout, Metadata: in.Metadata,
	}, nil)
	if err != nil {
		return startedOut{}, err
	}
	return startedOut{run.ID, run.Status, run.SessionID}, nil
}

// waitRun waits for the end of a run, at most in.TimeoutSeconds. It waits in one
// request to the API or, if the client wants progress notifications, in requests of
// progressEvery seconds each.
func waitRun(ctx context.Context, c call, in waitIn) (waitedOut, error) {
	run, err := c.Runs.Get(ctx, in.ID)
	piece := in.TimeoutSeconds
	if c.request.Params.GetProgressToken() != nil {
		piece = progressEvery
	}
	for waited := 0; err == nil; {
		if run.Status.Final() {
			c.progress(ctx, in.TimeoutSeconds, in.TimeoutSeconds, run)
			return waitedOut{true, *run}, nil
		}
		c.progress(ctx, waited, in.TimeoutSeconds, run)
		if waited >= in.TimeoutSeconds {
			return waitedOut{false, *run}, nil
		}
		piece = min(piece, in.TimeoutSeconds-waited)
		waited += piece
		run, err = c.Runs.Await(ctx, in.ID, piece)
	}
	return waitedOut{}, err
}

// progress sends a progress notification with the elapsed time in seconds, the run's
// status, and the agent's last log line, if the client requested notifications. It
// ignores errors.
func (c call) progress(ctx context.Context, waited, limit int, run *stint.Run) {
	token := c.request.Params.GetProgressToken()
	if token == nil {
		return
	}
	message := string(run.Status)
	if said := c.lastLine(ctx, run.ID); said != "" {
		message += ": " + clip(said)
	}
	_ = c.request.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		ProgressToken: token, Progress: float64(waited), Total: float64(limit), Message: message,
	})
}

// lastLine returns the agent's last log line, or "" if there is none or it cannot
// be read.
func (c call) lastLine(ctx context.Context, run string) string {
	for entry, err := range c.Runs.Logs(ctx, run, client.LogFilter{Type: stint.LogAgent, Descending: true, PageSize: 1}) {
		if err != nil {
			break
		}
		return entry.Message
	}
	return ""
}

func clip(s string) string {
	if len(s) <= maxNotice {
		return s
	}
	return strings.ToValidUTF8(s[:maxNotice], "") + "…"
}
