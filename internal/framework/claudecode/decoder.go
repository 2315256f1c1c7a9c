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

// interrupt is the request to end the turn. Claude Code then writes a final message.
const interrupt = `{"type":"control_request","request_id":"stint","request":{"subtype":"interrupt"}}` + "\n"

// decoder decodes the output of a run. Lines of unknown types are returned only as
// native lines.
//
// Sub-agents write to the same output. Each of their lines names the tool call that
// started the sub-agent; this ID is "" for the main agent.
type decoder struct {
	*jsonlines.Reader[line, *line]
	in framework.Input

	session string // Claude Code's session ID
	version string

	streams    map[string]*partialMessage // open message of each agent, by the ID of the tool call that started the agent
	open       map[string]*partialMessage // the messages in streams of which a piece was reported since their last end of line
	unrepeated map[blockKey]int           // number of blocks that were reported in pieces; Claude Code sends each again as a whole
	tools      map[string]string          // names of tools by tool call ID
	answers    map[string]string          // ID of the last message of each agent, with the same keys as streams
	turns      int64
	calls      map[string]int64 // turns by model
	usage      stint.Usage      // usage of completed messages
	last       string           // text of the main agent's last message
	result     *line            // the final message (type result); nil before it arrives
}

func newDecoder(in framework.Input) *decoder {
	d := &decoder{
		in: in, streams: map[string]*partialMessage{}, open: map[string]*partialMessage{}, unrepeated: map[blockKey]int{}, tools: map[string]string{},
		answers: map[string]string{}, calls: map[string]int64{},
	}
	d.Reader = jsonlines.NewReader[line](d.take)
	return d
}

// Flush decodes the incomplete last line of a stream. At the end of standard output
// it also ends the open messages.
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
	id := cmp.Or(d.session, d.in.ResumeID()) // the agent may have ended before it resumed the session
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
		return // omitted: these lines are as frequent as deltas
	}
	if l.Subtype != "" {
		kind += "/" + l.Subtype
	}
	s.Native = append(s.Native, framework.Native{Type: kind, Line: string(text)})
}

// refuse answers a control request with an error, so that the agent does not wait
// for a response.
func (d *decoder) refuse(s *framework.Step, l *line) {
	if len(l.RequestID) > 0 {
		s.Send = fmt.Appendf(s.Send, `{"type":"control_response","response":{"subtype":"error","request_id":%s,"error":"This host does not do that."}}`+"\n", l.RequestID)
	}
}

// system handles lines of type system, which are about the session itself.
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
		_ = json.Unmarshal(text, &m) // in these lines message is a string; other types are ignored
		notice("model_fallback", "%s", cmp.Or(m.Message, l.Content, "The agent continues with another model."))
	case "permission_denied":
		notice("permission_denied", "A tool was not permitted: %s.", l.ToolName)
	}
}
