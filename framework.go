package stint

// Framework is an adapter for a kind of agent, as in GET /v1/frameworks.
type Framework struct {
	Name string `json:"name"`
	// Available reports whether this server can run it. If not, Reason is a
	// sentence that says what to do.
	Available    bool         `json:"available"`
	Reason       string       `json:"reason,omitempty"`
	Version      *string      `json:"version"` // of the installed program; null without one
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities lists what a framework supports.
type Capabilities struct {
	Model        bool `json:"model"`        // uses the definition's provider
	Tools        bool `json:"tools"`        // reports its tools as items
	Conversation bool `json:"conversation"` // continues its own conversation, not only files
	MCP          bool `json:"mcp"`          // supports mcpServers
	Usage        bool `json:"usage"`        // reports tokens
	Schema       bool `json:"schema"`       // receives output.schema
	Interrupt    bool `json:"interrupt"`    // can end its turn without a signal
}
