package stint

// Framework describes an adapter for a kind of agent, as returned by
// GET /v1/frameworks.
type Framework struct {
	Name string `json:"name"`
	// Available reports whether this server can run agents of the framework. If not,
	// Reason is a sentence that says what to do.
	Available    bool         `json:"available"`
	Reason       string       `json:"reason,omitempty"`
	Version      *string      `json:"version"` // of the installed program; nil if there is none or its version is unknown
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities lists what a framework supports.
type Capabilities struct {
	Model        bool `json:"model"`        // uses the definition's provider
	Tools        bool `json:"tools"`        // reports tool calls as items
	Conversation bool `json:"conversation"` // later runs of a session continue the agent's conversation, not only its files
	MCP          bool `json:"mcp"`          // supports mcpServers
	Usage        bool `json:"usage"`        // reports tokens
	Schema       bool `json:"schema"`       // receives output.schema
	Interrupt    bool `json:"interrupt"`    // can end its turn on request, without a signal to its process
}
