package stint

import "encoding/json"

// ItemKind is the kind of a structured output event.
type ItemKind string

// The kinds of items.
const (
	ItemMessage    ItemKind = "message"     // text of the agent
	ItemReasoning  ItemKind = "reasoning"   // reasoning of the agent
	ItemToolCall   ItemKind = "tool_call"   // the start of a tool call
	ItemToolResult ItemKind = "tool_result" // the result of a tool call
	ItemPlan       ItemKind = "plan"        // the agent's complete list of steps
	ItemNotice     ItemKind = "notice"      // a retry, a compaction, or a warning
)

// Item contains the structured data of an output event.
type Item struct {
	Kind ItemKind `json:"kind"`
	// MessageID is the same for all parts of a message or reasoning. Delta is true if
	// the item is such a part.
	MessageID string      `json:"messageId,omitempty"`
	Delta     bool        `json:"delta,omitempty"`
	Tool      *ToolItem   `json:"tool,omitempty"`
	Entries   []PlanEntry `json:"entries,omitempty"`
	Code      string      `json:"code,omitempty"` // kind of a notice: api_retry, budget, …
}

// ToolItem is a tool call or its result, which have the same ID.
type ToolItem struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Title    string          `json:"title,omitempty"`    // description for users, one line
	Category string          `json:"category,omitempty"` // one of ToolCategories
	Input    json.RawMessage `json:"input,omitempty"`
	Status   string          `json:"status,omitempty"` // in_progress, completed, or failed
	ExitCode *int            `json:"exitCode,omitempty"`
	// Truncated is true if the event's content is not the complete result.
	Truncated bool `json:"truncated,omitempty"`
}

// The states of a tool call.
const (
	ToolInProgress = "in_progress"
	ToolCompleted  = "completed"
	ToolFailed     = "failed"
)

// ToolCategories lists the categories of tools in the Agent Client Protocol.
var ToolCategories = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"}

// PlanEntry is a step of an agent's plan. Status is pending, in_progress, or
// completed.
type PlanEntry struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}
