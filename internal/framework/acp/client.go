package acp

import (
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// client is one connection to an agent. At most one request is open at a time,
// from initialize to session/prompt; next handles its response.
type client struct {
	in    framework.Input
	lines map[string]*framework.Lines // by stream

	number int // of the last request
	asked  int // number of the open request; 0 if there is none
	next   func(*message) framework.Step

	agent       initializeResult
	session     string
	isLoading   bool // updates are history of earlier runs
	isPrompting bool // the prompt is open
	triedLogin  bool // authentication
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

// Write decodes output.
func (c *client) Write(stream string, p []byte) (s framework.Step) {
	c.lines[stream].Write(p, c.reader(stream, &s))
	return s
}

// Flush decodes the incomplete last line.
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

// read handles one line of the protocol.
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
			return s // the event contains its whole text
		}
	case m.Method == "" && c.asked != 0 && m.isResponse(c.asked):
		kind, c.asked = "response", 0
		s = c.next(&m)
	}
	s.Native = []framework.Native{{Type: kind, Line: string(line)}}
	return s
}

// request sends a request and sets the handler of its response.
func (c *client) request(method string, params any, next func(*message) framework.Step) framework.Step {
	c.number++
	c.asked, c.next = c.number, next
	return framework.Step{Send: call(c.number, method, params)}
}

func notice(code, text string) framework.Step {
	return framework.Step{Events: []stint.OutputData{transcript.Notice(code, text)}}
}

// Interrupt returns the request to end the turn.
func (c *client) Interrupt() []byte {
	if !c.isPrompting || c.end != nil {
		return nil
	}
	return call(0, "session/cancel", map[string]string{"sessionId": c.session})
}

// Conversation returns the session ID.
func (c *client) Conversation() framework.Conversation {
	switch {
	case c.session != "":
		return framework.Conversation{Framework: "acp", Version: c.agent.Info.Version, ID: c.session}
	case c.in.Resume != nil:
		return *c.in.Resume // the session was never resumed
	}
	return framework.Conversation{}
}

// decode decodes a value from the agent. Members with a wrong type stay zero.
func decode[T any](raw json.RawMessage) (v T) {
	_ = json.Unmarshal(raw, &v) // raw is part of a valid line, or empty
	return v
}
