package stint

import "encoding/json"

// Status is the state of a run. A final status never changes.
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

// Statuses lists every status: first Pending and Running, then the final ones.
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

// Reason is the reason why a run ended. It is more specific than the status.
type Reason string

// The values of statusReason.
const (
	ReasonExitCode     Reason = "exit_code"
	ReasonTimeLimit    Reason = "time_limit"
	ReasonIdleLimit    Reason = "idle_limit"
	ReasonMismatch     Reason = "result_mismatch"
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

// RunSummary is a run in a list.
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

// Run is one execution of an agent. The response of POST /v1/runs does not contain
// Volumes.
type Run struct {
	RunSummary
	// Error is the message of a failed run with the end of the agent's standard error.
	// StatusMessage is the message of every ending other than Completed.
	Error           *string `json:"error"`
	StatusMessage   *string `json:"statusMessage"`
	ExecutionTimeMs *int64  `json:"executionTimeMs"`
	CheckpointID    *string `json:"checkpointId"`
	SessionID       string  `json:"sessionId"`
	ArtifactName    *string `json:"artifactName"`
	ArtifactVersion *string `json:"artifactVersion"`
	// HeadMovedFrom is the version that was current before ArtifactVersion became
	// current, if ArtifactVersion was not made from it. Otherwise it is nil.
	HeadMovedFrom *HeadMove         `json:"headMovedFrom,omitempty"`
	Volumes       map[string]string `json:"volumes,omitzero"`
	StatusReason  *Reason           `json:"statusReason"`
	ExitCode      *int              `json:"exitCode"`
	Usage         json.RawMessage   `json:"usage"` // a Usage; null if no model was called
	// Result is the agent's last message as a string, or a JSON value if the
	// definition has an output schema. It is null if the run has none.
	Result      json.RawMessage   `json:"result"`
	Metadata    map[string]string `json:"metadata"`
	ParentRunID *string           `json:"parentRunId"`
	TraceID     *string           `json:"traceId"`
	// CreatedBy is "user:" and the user's name, or "run:" and the ID of the run that
	// started this one. It is nil if an earlier release stored the run.
	CreatedBy *string `json:"createdBy"`
	// Attempt is the number of the newest attempt; 0 before the first one. Attempts
	// lists them, the newest last.
	Attempt  int       `json:"attempt"`
	Attempts []Attempt `json:"attempts"`
	// Worker, Isolation, and ImageDigest are those of the current or last attempt;
	// nil while the run is pending.
	Worker      *string `json:"workerId"`
	Isolation   *string `json:"isolation"`
	ImageDigest *string `json:"imageDigest"`
	// Queue says why the run is pending; nil in every other status.
	Queue *Queue `json:"queue"`
}

// Attempt is one execution of a run. A run has several if its agent's retries allow.
type Attempt struct {
	Number       int     `json:"number"` // 1, 2, 3 …
	WorkerID     string  `json:"workerId"`
	Isolation    *string `json:"isolation"`
	ImageDigest  *string `json:"imageDigest"` // nil without an image
	StartedAt    Time    `json:"startedAt"`
	EndedAt      *Time   `json:"endedAt"`
	StatusReason *Reason `json:"statusReason"` // nil while it executes, and after success
}

// HeadMove describes the version that was current before a run's version replaced it.
type HeadMove struct {
	VersionID string  `json:"versionId"`
	SessionID *string `json:"sessionId"` // the session that made the version; nil if it was pushed
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
	Model           string            `json:"model,omitempty"` // instead of the definition's
	Priority        int               `json:"priority,omitempty"`
	Limits          *Limits           `json:"limits,omitempty"`
}

// Limits are the limits of one run. In a definition, 0 means no limit, except that
// OutputBytes is then DefaultOutputBytes. In a request, 0 means the limit of the
// agent, and other limits cannot be looser than those of the agent.
type Limits struct {
	OutputBytes Size    `json:"outputBytes,omitempty"`
	MaxTurns    int64   `json:"maxTurns,omitempty"`   // responses of the model
	MaxTokens   int64   `json:"maxTokens,omitempty"`  // input and output, of all models
	MaxCostUSD  float64 `json:"maxCostUsd,omitempty"` // US dollars
	// IdleTimeout ends a run without output and model calls for this time. The
	// default is 30 minutes for frameworks that read protocol messages from the
	// agent, and otherwise unlimited.
	IdleTimeout string `json:"idleTimeout,omitempty"`
}
