package codex

import "encoding/json"

// line is a line of output. It has the members of all types of lines. Members that
// a type of line does not use are zero.
type line struct {
	Type     string `json:"type"`
	ThreadID string `json:"thread_id"`
	Item     item   `json:"item"`
	Usage    *usage `json:"usage"`
	Message  string `json:"message"`
	Error    struct {
		Message string `json:"message"`
	} `json:"error"`
}

// LineType returns the type of the line.
func (l *line) LineType() string { return l.Type }

// usage has the token counts of the whole conversation.
type usage struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_input_tokens"`
	Written   int64 `json:"cache_write_input_tokens"`
	Output    int64 `json:"output_tokens"`
	Reasoning int64 `json:"reasoning_output_tokens"`
}

// item is an item. It has the members of all types of items.
type item struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Text     string `json:"text"`
	Message  string `json:"message"`
	Status   string `json:"status"`
	Command  string `json:"command"`
	Output   string `json:"aggregated_output"`
	ExitCode *int   `json:"exit_code"`
	Query    string `json:"query"`

	Changes json.RawMessage `json:"changes"` // of a file_change item

	Server    string          `json:"server"` // of an mcp_tool_call item, like the next four fields
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Error     struct {
		Message string `json:"message"`
	} `json:"error"`
	Result struct {
		Content []struct{ Type, Text string } `json:"content"`
	} `json:"result"`

	Items []struct { // of a todo_list item
		Text      string `json:"text"`
		Completed bool   `json:"completed"`
	} `json:"items"`
}
