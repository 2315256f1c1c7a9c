package stint

import "encoding/json"

// ItemKind names what a structured output event tells.
type ItemKind string

// The kinds of items.
const (
	ItemMessage    ItemKind = "message"     // what the agent says
	ItemReasoning  ItemKind = "reasoning"   // what it thinks
	ItemToolCall   ItemKind = "tool_call"   // a tool begins
	ItemToolResult ItemKind = "tool_result" // what the tool gave
	ItemPlan       ItemKind = "plan"        // its list of steps, whole each time
	ItemNotice     ItemKind = "notice"      // a retry, a compaction, a warning
)

// Item is what a framework knows of an output event beyond its text.
type Item struct {
	Kind ItemKind `json:"kind"`
	// MessageID joins the pieces of one message or reasoning; Delta says that
	// this is a piece and not the whole.
	MessageID string      `json:"messageId,omitempty"`
	Delta     bool        `json:"delta,omitempty"`
	Tool      *ToolItem   `json:"tool,omitempty"`
	Entries   []PlanEntry `json:"entries,omitempty"`
	Code      string      `json:"code,omitempty"` // of a notice: api_retry, budget, …
}

// ToolItem is a use of a tool. A call and its result have the same ID.
type ToolItem struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Title    string          `json:"title,omitempty"`    // a line for people
	Category string          `json:"category,omitempty"` // one of ToolCategories
	Input    json.RawMessage `json:"input,omitempty"`
	Status   string          `json:"status,omitempty"` // in_progress, completed or failed
	ExitCode *int            `json:"exitCode,omitempty"`
	// Truncated says that the content is not all that the tool gave.
	Truncated bool `json:"truncated,omitempty"`
}

// The states of a tool's use.
const (
	ToolInProgress = "in_progress"
	ToolCompleted  = "completed"
	ToolFailed     = "failed"
)

// ToolCategories are the kinds of tools, as the Agent Client Protocol names
// them.
var ToolCategories = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"}

// PlanEntry is a step of an agent's plan. Status is pending, in_progress or
// completed.
type PlanEntry struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}
