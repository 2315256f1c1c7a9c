package acp

import (
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// client is the client's side of one connection to an agent. It sends its requests
// one after the other, from initialize to session/prompt, and has at most one open
// request (a request without a response yet). The function next handles the
// response to the open request.
type client struct {
	in    framework.Input
	lines map[string]*framework.Lines // by stream

	number int // ID of the last request
	asked  int // ID of the open request; 0 if no request is open
	next   func(*message) framework.Step

	agent       initializeResult
	session     string
	isLoading   bool // the agent is sending the history of earlier runs
	isPrompting bool // session/prompt is the open request
	triedLogin  bool // an authenticate request was sent
	end         *framework.Verdict

	text  transcriber
	usage usageCounter
}

func newClient(in framework.Input) *client {
	c := &client{
		in: in, lines: map[string]*framework.Lines{framework.Stdout: {}, framework.Stderr: {}},
		number: initializeID, asked: initializeID, text: newTranscriber(),
	}
	if in.Definition == nil {
		c.in.Definition = &stint.Definition{}
	}
	c.usage.model = c.in.Definition.Model
	c.next = c.initialized
	return c
}

// Write decodes a part of an output stream.
func (c *client) Write(stream string, p []byte) (s framework.Step) {
	c.lines[stream].Write(p, c.reader(stream, &s))
	return s
}

// Flush decodes the incomplete last line of a stream. At the end of standard
// output it also ends the open text and reports pending tool calls.
func (c *client) Flush(stream string) (s framework.Step) {
	c.lines[stream].Flush(c.reader(stream, &s))
	if stream == framework.Stdout {
		s.Events = append(s.Events, c.text.close()...)
	}
	return s
}

func (c *client) reader(stream string, s *framework.Step) func([]byte, bool) {
	return func(line []byte, cut bool) {
		if stream == framework.Stdout {
			s.Join(c.read(line, cut))
			return
		}
		s.Events = append(s.Events, framework.TextLine(stream, line, false)...)
	}
}

// read handles one line of standard output. A line that is not a message of the
// protocol becomes output text. cut is true if the line was too long.
func (c *client) read(line []byte, cut bool) framework.Step {
	if cut {
		return notice("long_line", fmt.Sprintf("A message of the agent of more than %d bytes was left out.", framework.MaxLine))
	}
	m, ok := parse(line)
	if !ok {
		if len(line) == 0 {
			return framework.Step{}
		}
		return framework.Step{Events: framework.TextLine(framework.Stdout, line, false)}
	}
	var s framework.Step
	kind := m.Method
	switch {
	case m.isRequest():
		s = c.serve(&m)
	case m.Method == "session/update":
		var inEvent bool
		if s, kind, inEvent = c.update(m.Params); inEvent {
			return s // an event contains the whole text of the update, so no native line is needed
		}
	case m.Method == "" && c.asked != 0 && m.isResponse(c.asked):
		kind, c.asked = "response", 0
		s = c.next(&m)
	}
	s.Native = []framework.Native{{Type: kind, Line: string(line)}}
	return s
}

// request returns a step that sends a request, and makes next the handler of the
// response.
func (c *client) request(method string, params any, next func(*message) framework.Step) framework.Step {
	c.number++
	c.asked, c.next = c.number, next
	return framework.Step{Send: call(c.number, method, params)}
}

func notice(code, text string) framework.Step {
	return framework.Step{Events: []stint.OutputData{transcript.Notice(code, text)}}
}

// Interrupt returns the notification that makes the agent end its turn. It returns
// nil if the prompt is not being processed.
func (c *client) Interrupt() []byte {
	if !c.isPrompting || c.end != nil {
		return nil
	}
	return call(0, "session/cancel", map[string]string{"sessionId": c.session})
}

// Conversation returns the conversation that a later run can resume: the agent's
// session, or else the conversation that this run was to resume.
func (c *client) Conversation() framework.Conversation {
	switch {
	case c.session != "":
		return framework.Conversation{Framework: "acp", Version: c.agent.Info.Version, ID: c.session}
	case c.in.Resume != nil:
		return *c.in.Resume // the agent ended before the session was resumed
	}
	return framework.Conversation{}
}

// decode decodes a JSON value from the agent. Members with a wrong type stay zero.
func decode[T any](raw json.RawMessage) (v T) {
	_ = json.Unmarshal(raw, &v) // cannot be a syntax error: raw is part of a valid line, or empty
	return v
}
