package claudecode

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// interrupt is the request to end the turn. A result follows.
const interrupt = `{"type":"control_request","request_id":"stint","request":{"subtype":"interrupt"}}` + "\n"

// decoder decodes the output of a run. Lines of unknown types are kept as
// native lines.
type decoder struct {
	*jsonlines.Reader
	in          framework.Input
	event, part jsonlines.Object // parts of the current line

	session string // Claude Code's session ID
	version string

	streams    map[string]*partialMessage // open messages by the tool call of their sub-agent; "" for the main agent
	open       map[string]*partialMessage // those with an incomplete line
	unrepeated map[blockKey]int           // blocks whose pieces were reported, and that are repeated as a whole later
	tools      map[string]string          // names of tools by call ID
	answers    map[string]string          // the last message ID of each partialMessage
	turns      int64
	calls      map[string]int64 // turns by model
	usage      stint.Usage      // of completed messages
	last       string           // text of the last message
	result     *result
}

func newDecoder(in framework.Input) *decoder {
	d := &decoder{
		in: in, streams: map[string]*partialMessage{}, open: map[string]*partialMessage{}, unrepeated: map[blockKey]int{}, tools: map[string]string{},
		answers: map[string]string{}, calls: map[string]int64{},
	}
	d.Reader = jsonlines.NewReader(d.take)
	return d
}

// Flush also ends messages that were cut off.
func (d *decoder) Flush(name string) framework.Step {
	s := d.Reader.Flush(name)
	if name == framework.Stderr {
		return s
	}
	for _, parent := range slices.Sorted(maps.Keys(d.streams)) {
		d.closeBlock(&s, d.streams[parent])
	}
	return s
}

func (d *decoder) Interrupt() []byte { return []byte(interrupt) }

func (d *decoder) Conversation() framework.Conversation {
	id := d.session
	if id == "" {
		id = resumed(d.in) // the session was never resumed
	}
	if id == "" {
		return framework.Conversation{}
	}
	version := d.in.Program.Version
	if version == "" {
		version = d.version
	}
	return framework.Conversation{Framework: catalog.ClaudeCode.Name, Version: version, ID: id}
}

func (d *decoder) take(s *framework.Step, kind string, text []byte, cut bool) {
	if cut {
		d.add(s, jsonlines.TooLong())
	}
	if kind == "stream_event" {
		d.streamEvent(s)
		return
	}
	subtype := d.Line.Text("subtype")
	switch kind {
	case "system":
		d.system(s, subtype)
	case "assistant":
		d.assistant(s)
	case "user":
		d.user(s)
	case "result":
		d.end(s, subtype)
	case "control_request":
		d.refuse(s)
	}
	if subtype == "thinking_tokens" {
		return // as frequent as deltas
	}
	if subtype != "" {
		kind += "/" + subtype
	}
	s.Native = append(s.Native, framework.Native{Type: kind, Line: string(text)})
}

// refuse answers a control request with an error, so that the agent does not
// wait.
func (d *decoder) refuse(s *framework.Step) {
	id := d.Line.Raw("request_id")
	if len(id) > 0 {
		s.Send = fmt.Appendf(s.Send, `{"type":"control_response","response":{"subtype":"error","request_id":%s,"error":"This host does not do that."}}`+"\n", id)
	}
}

// system handles messages about the session itself.
func (d *decoder) system(s *framework.Step, subtype string) {
	notice := func(code, format string, args ...any) {
		d.add(s, transcript.Notice(code, fmt.Sprintf(format, args...)))
	}
	switch subtype {
	case "init":
		if id := d.Line.Text("session_id"); id != "" {
			d.session = id
		}
		d.version = d.Line.Text("claude_code_version")
		d.mcpFailures(s)
	case "api_retry":
		notice("api_retry", "The model did not answer (%s); it is asked again, try %s of %s.", d.failure(), d.Line.Raw("attempt"), d.Line.Raw("max_retries"))
	case "compact_boundary":
		notice("compaction", "The conversation was compacted.")
	case "model_fallback", "model_refusal_fallback", "model_refusal_no_fallback", "model_consent_fallback":
		text := d.Line.Text("message")
		if text == "" {
			text = d.Line.Text("content")
		}
		if text == "" {
			text = "The agent continues with another model."
		}
		notice("model_fallback", "%s", text)
	case "permission_denied":
		notice("permission_denied", "A tool was not permitted: %s.", d.Line.Text("tool_name"))
	}
}

// failure returns the reason why the model did not answer, in a few words.
func (d *decoder) failure() string {
	if status := d.Line.Raw("error_status"); len(status) > 0 && string(status) != "null" {
		return "status " + string(status)
	}
	if text := d.Line.Text("error"); text != "" && text != "unknown" {
		return text
	}
	return "no connection"
}

// mcpFailures reports the MCP servers that could not be reached.
func (d *decoder) mcpFailures(s *framework.Step) {
	var servers []struct{ Name, Status string }
	d.Line.Decode("mcp_servers", &servers)
	for _, m := range servers {
		if m.Status == "failed" {
			d.add(s, transcript.Notice("mcp_failed", fmt.Sprintf("The MCP server '%s' could not be reached; its tools are missing.", m.Name)))
		}
	}
}
