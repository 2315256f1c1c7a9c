package stint

// Session is a sequence of runs that continue one another.
type Session struct {
	ID           string  `json:"id"`
	AgentID      string  `json:"agentId"`
	AgentName    string  `json:"agentName"`
	CheckpointID *string `json:"checkpointId"` // the newest checkpoint; nil if there is none
	LastRunID    string  `json:"lastRunId"`
	CreatedAt    Time    `json:"createdAt"`
	UpdatedAt    Time    `json:"updatedAt"`
}

// Checkpoint is the state at the end of a run, from which another run can resume.
// It contains the names of secrets, not their values.
type Checkpoint struct {
	ID              string            `json:"id"`
	RunID           string            `json:"runId"`
	SessionID       string            `json:"sessionId"`
	AgentID         string            `json:"agentId"`
	AgentName       string            `json:"agentName"`
	AgentVersionID  string            `json:"agentVersionId"`
	ArtifactName    *string           `json:"artifactName"`
	ArtifactVersion *string           `json:"artifactVersion"`
	Volumes         map[string]string `json:"volumes"`
	Variables       map[string]string `json:"variables"`
	SecretNames     []string          `json:"secretNames"`
	CreatedAt       Time              `json:"createdAt"`
}
