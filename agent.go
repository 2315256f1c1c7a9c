package stint

import "encoding/json"

// Agent is a named thing that runs can execute. Its behaviour is the
// definition of its current version.
type Agent struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	CurrentVersionID string `json:"currentVersionId"`
	CreatedAt        Time   `json:"createdAt"`
	UpdatedAt        Time   `json:"updatedAt"`
}

// AgentVersion is one definition that an agent had; Definition is set where
// one version is read.
type AgentVersion struct {
	ID            string          `json:"id"`
	AgentID       string          `json:"agentId"`
	VersionNumber int64           `json:"versionNumber"`
	CreatedAt     Time            `json:"createdAt"`
	Definition    json.RawMessage `json:"definition,omitempty"`
}
