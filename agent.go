package stint

import "encoding/json"

// Agent is a named program that runs execute. Its current version contains its
// definition.
type Agent struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	CurrentVersionID string `json:"currentVersionId"`
	CreatedAt        Time   `json:"createdAt"`
	UpdatedAt        Time   `json:"updatedAt"`
	// Warnings is set only in the response to a new definition.
	Warnings []Warning `json:"warnings,omitempty"`
}

// AgentVersion is one version of an agent. Definition is set only in the
// response of GET /v1/agents/:id/versions/:version, and Warnings only in the response to a new definition.
type AgentVersion struct {
	ID            string          `json:"id"`
	AgentID       string          `json:"agentId"`
	VersionNumber int64           `json:"versionNumber"`
	CreatedAt     Time            `json:"createdAt"`
	Definition    json.RawMessage `json:"definition,omitempty"`
	Warnings      []Warning       `json:"warnings,omitempty"`
}
