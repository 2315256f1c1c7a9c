package claudecode

import (
	"cmp"
	"encoding/json"
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
	*jsonlines.Reader[line, *line]
	in framework.Input

	session string // Claude Code's session ID
	version string

	streams    map[string]*partialMessage // open messages by the tool call of their sub-agent; "" for the main agent
	open       map[string]*partialMessage // those with an incomplete line
	unrepeated map[blockKey]int           // reported blocks that will be repeated as a whole
	tools      map[string]string          // names of tools by call ID
	answers    map[string]string          // the last message ID of each partialMessage
	turns      int64
	calls      map[string]int64 // turns by model
	usage      stint.Usage      // of completed messages
	last       string           // text of the last message
	result     *line            // the final message
}

func newDecoder(in framework.Input) *decoder {
	d := &decoder{
		in: in, streams: map[string]*partialMessage{}, open: map[string]*partialMessage{}, unrepeated: map[blockKey]int{}, tools: map[string]string{},
		answers: map[string]string{}, calls: map[string]int64{},
	}
	d.Reader = jsonlines.NewReader[line](d.take)
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
	id := cmp.Or(d.session, d.in.ResumeID()) // the session may never have been resumed
	if id == "" {
		return framework.Conversation{}
	}
	return framework.Conversation{Framework: catalog.ClaudeCode.Name, Version: cmp.Or(d.in.Program.Version, d.version), ID: id}
}

func (d *decoder) take(s *framework.Step, kind string, l *line, text []byte, cut bool) {
	if cut {
		d.add(s, jsonlines.TooLong())
	}
	switch kind {
	case "stream_event":
		d.streamEvent(s, l)
		return
	case "system":
		d.system(s, l, text)
	case "assistant":
		d.assistant(s, l)
	case "user":
		d.user(s, l)
	case "result":
		d.end(s, l)
	case "control_request":
		d.refuse(s, l)
	}
	if l.Subtype == "thinking_tokens" {
		return // as frequent as deltas
	}
	if l.Subtype != "" {
		kind += "/" + l.Subtype
	}
	s.Native = append(s.Native, framework.Native{Type: kind, Line: string(text)})
}

// refuse answers a control request with an error, so that the agent does not
// wait.
func (d *decoder) refuse(s *framework.Step, l *line) {
	if len(l.RequestID) > 0 {
		s.Send = fmt.Appendf(s.Send, `{"type":"control_response","response":{"subtype":"error","request_id":%s,"error":"This host does not do that."}}`+"\n", l.RequestID)
	}
}

// system handles messages about the session itself.
func (d *decoder) system(s *framework.Step, l *line, text []byte) {
	notice := func(code, format string, args ...any) {
		d.add(s, transcript.Notice(code, fmt.Sprintf(format, args...)))
	}
	switch l.Subtype {
	case "init":
		d.session, d.version = cmp.Or(l.SessionID, d.session), l.Version
		for _, m := range l.MCPServers {
			if m.Status == "failed" {
				notice("mcp_failed", "The MCP server '%s' could not be reached; its tools are missing.", m.Name)
			}
		}
	case "api_retry":
		notice("api_retry", "The model did not answer (%s); it is asked again, try %s of %s.", l.failure(), l.Attempt, l.MaxRetries)
	case "compact_boundary":
		notice("compaction", "The conversation was compacted.")
	case "model_fallback", "model_refusal_fallback", "model_refusal_no_fallback", "model_consent_fallback":
		var m struct{ Message string }
		_ = json.Unmarshal(text, &m) // the message of this type is a text; ignore another type
		notice("model_fallback", "%s", cmp.Or(m.Message, l.Content, "The agent continues with another model."))
	case "permission_denied":
		notice("permission_denied", "A tool was not permitted: %s.", l.ToolName)
	}
}
