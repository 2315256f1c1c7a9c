package stint

import "encoding/json"

// Status is where a run stands. A status that is Final never changes.
type Status string

// The six states of a run.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	TimedOut  Status = "timeout"
	Cancelled Status = "cancelled"
)

// Statuses lists every status, in the order of a life.
var Statuses = []Status{Pending, Running, Completed, Failed, TimedOut, Cancelled}

// Valid reports whether s is one of Statuses.
func (s Status) Valid() bool {
	switch s {
	case Pending, Running, Completed, Failed, TimedOut, Cancelled:
		return true
	}
	return false
}

// Final reports whether the run has ended.
func (s Status) Final() bool {
	switch s {
	case Completed, Failed, TimedOut, Cancelled:
		return true
	}
	return false
}

// Reason tells why a run ended as it did, finer than its status.
type Reason string

// The reasons, as statusReason shows them.
const (
	ReasonExitCode     Reason = "exit_code"
	ReasonTimeLimit    Reason = "time_limit"
	ReasonCancelled    Reason = "cancelled_by_user"
	ReasonOutOfMemory  Reason = "out_of_memory"
	ReasonDiskFull     Reason = "disk_full"
	ReasonOutputLimit  Reason = "output_limit"
	ReasonWorkerLost   Reason = "worker_lost"
	ReasonSandboxError Reason = "sandbox_error"
	ReasonSetupFailed  Reason = "setup_failed"
	ReasonQueueExpired Reason = "queue_expired"
	ReasonBudget       Reason = "budget_exceeded"
)

// RunSummary is a run as lists show it.
type RunSummary struct {
	ID          string `json:"id"`
	AgentID     string `json:"agentId"`
	AgentName   string `json:"agentName"`
	Status      Status `json:"status"`
	Prompt      string `json:"prompt"`
	CreatedAt   Time   `json:"createdAt"`
	StartedAt   *Time  `json:"startedAt"`
	CompletedAt *Time  `json:"completedAt"`
}

// Run is one execution of an agent. Volumes is nil in the answer to its
// creation and left out there.
type Run struct {
	RunSummary
	Error           *string           `json:"error"`
	ExecutionTimeMs *int64            `json:"executionTimeMs"`
	CheckpointID    *string           `json:"checkpointId"`
	SessionID       string            `json:"sessionId"`
	ArtifactName    *string           `json:"artifactName"`
	ArtifactVersion *string           `json:"artifactVersion"`
	Volumes         map[string]string `json:"volumes,omitzero"`
	StatusReason    *Reason           `json:"statusReason"`
	ExitCode        *int              `json:"exitCode"`
	Usage           json.RawMessage   `json:"usage"` // a Usage; null where no model was asked
	// Result is the agent's last message as a string, or the value that it
	// gave where the definition has an output schema.
	Result      json.RawMessage   `json:"result"`
	Metadata    map[string]string `json:"metadata"`
	ParentRunID *string           `json:"parentRunId"`
	TraceID     *string           `json:"traceId"`
}

// NewRun is the body of POST /v1/runs.
type NewRun struct {
	Agent           string            `json:"agent,omitempty"`
	AgentID         string            `json:"agentId,omitempty"`
	SessionID       string            `json:"sessionId,omitempty"`
	CheckpointID    string            `json:"checkpointId,omitempty"`
	AgentVersion    string            `json:"agentVersion,omitempty"`
	Prompt          string            `json:"prompt"`
	Variables       map[string]string `json:"variables,omitempty"`
	Secrets         map[string]string `json:"secrets,omitempty"`
	Volumes         map[string]string `json:"volumes,omitempty"`
	ArtifactName    string            `json:"artifactName,omitempty"`
	ArtifactVersion string            `json:"artifactVersion,omitempty"`
	Metadata        map[string]string `json:"metadata,omitempty"`
	Timeout         string            `json:"timeout,omitempty"`
	Priority        int               `json:"priority,omitempty"`
	Limits          *Limits           `json:"limits,omitempty"`
}

// Limits bound what one run may produce and use. A zero field sets no bound of
// its own; a run's limits may only be tighter than its agent's.
type Limits struct {
	OutputBytes Size    `json:"outputBytes,omitempty"`
	MaxTurns    int64   `json:"maxTurns,omitempty"`   // answers of the model to the agent
	MaxTokens   int64   `json:"maxTokens,omitempty"`  // in and out, of all models
	MaxCostUSD  float64 `json:"maxCostUsd,omitempty"` // US dollars
	// IdleTimeout ends a run that was heard nothing of for so long, by output or
	// by a call of its model; 30 minutes where nothing is said, for agents that
	// speak a protocol.
	IdleTimeout string `json:"idleTimeout,omitempty"`
}
