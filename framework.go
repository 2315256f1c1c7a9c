package stint

// Framework is a way of driving agents, as GET /v1/frameworks tells it.
type Framework struct {
	Name string `json:"name"`
	// Available says that runs of it can start on this server; Reason is a
	// sentence that says what to do where not.
	Available    bool         `json:"available"`
	Reason       string       `json:"reason,omitempty"`
	Version      *string      `json:"version"` // of the installed program; null where there is none
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities tell what a framework can do.
type Capabilities struct {
	Model        bool `json:"model"`        // uses the definition's provider
	Tools        bool `json:"tools"`        // tells of its tools as items
	Conversation bool `json:"conversation"` // goes on with its own conversation, not with files alone
	MCP          bool `json:"mcp"`          // takes mcpServers
	Usage        bool `json:"usage"`        // tells tokens
	Schema       bool `json:"schema"`       // is told of output.schema
	Interrupt    bool `json:"interrupt"`    // ends its turn when asked, before signals
}
