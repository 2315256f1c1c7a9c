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

// interrupt is the line that ends the turn; a result follows.
const interrupt = `{"type":"control_request","request_id":"stint","request":{"subtype":"interrupt"}}` + "\n"

// decoder reads a run's output. It trusts no line: what it does not understand
// is kept as it is.
type decoder struct {
	*jsonlines.Reader
	in          framework.Input
	event, part jsonlines.Object // of the line that is read

	session string // its own name for the conversation, once it is told
	version string

	streams   map[string]*stream // of messages that go on, by the tool that a sub-agent runs for; "" is the agent itself
	open      map[string]*stream // those of them whose line may have no end yet
	unclaimed map[claim]int      // blocks that came in pieces and come whole yet
	tools     map[string]string  // names of tools that were called, by the call
	answers   map[string]string  // the newest message of each stream
	turns     int64
	calls     map[string]int64 // turns by model
	usage     stint.Usage      // of the messages that came to their end
	last      string           // the newest message's text
	result    *result
}

func newDecoder(in framework.Input) *decoder {
	d := &decoder{
		in: in, streams: map[string]*stream{}, open: map[string]*stream{}, unclaimed: map[claim]int{}, tools: map[string]string{},
		answers: map[string]string{}, calls: map[string]int64{},
	}
	d.Reader = jsonlines.NewReader(d.take)
	return d
}

// Flush ends the messages that were cut off, too.
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
		id = resumed(d.in) // it never came so far as to go on
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
		d.tell(s, jsonlines.TooLong())
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
		return // as often as pieces of a thought
	}
	if subtype != "" {
		kind += "/" + subtype
	}
	s.Native = append(s.Native, framework.Native{Type: kind, Line: string(text)})
}

// refuse answers what it asks of a host that offers nothing, so that it does
// not wait.
func (d *decoder) refuse(s *framework.Step) {
	id := d.Line.Raw("request_id")
	if len(id) > 0 {
		s.Send = fmt.Appendf(s.Send, `{"type":"control_response","response":{"subtype":"error","request_id":%s,"error":"This host does not do that."}}`+"\n", id)
	}
}

// system reads of the course of things.
func (d *decoder) system(s *framework.Step, subtype string) {
	notice := func(code, format string, args ...any) {
		d.tell(s, transcript.Notice(code, fmt.Sprintf(format, args...)))
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
			text = "The agent goes on with another model."
		}
		notice("model_fallback", "%s", text)
	case "permission_denied":
		notice("permission_denied", "A tool was not permitted: %s.", d.Line.Text("tool_name"))
	}
}

// failure says in a word why the model did not answer.
func (d *decoder) failure() string {
	if status := d.Line.Raw("error_status"); len(status) > 0 && string(status) != "null" {
		return "status " + string(status)
	}
	if text := d.Line.Text("error"); text != "" && text != "unknown" {
		return text
	}
	return "no connection"
}

// mcpFailures tells of servers that could not be reached.
func (d *decoder) mcpFailures(s *framework.Step) {
	var servers []struct{ Name, Status string }
	d.Line.Decode("mcp_servers", &servers)
	for _, m := range servers {
		if m.Status == "failed" {
			d.tell(s, transcript.Notice("mcp_failed", fmt.Sprintf("The MCP server '%s' could not be reached; its tools are missing.", m.Name)))
		}
	}
}
