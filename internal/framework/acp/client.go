package acp

import (
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// client is one talk with an agent. It has one request open at a time, from the
// greeting to the prompt; what it does with the answer is next.
type client struct {
	in    framework.Input
	lines map[string]*framework.Lines // by stream

	number int // of the newest request
	asked  int // the number of the open one; 0: none
	next   func(*message) framework.Step

	agent   greeted
	session string
	loading bool // what comes is history, told in earlier runs
	asking  bool // the prompt is open
	tried   bool // to log in
	end     *framework.Verdict

	text  transcriber
	spent usageCounter
}

func newClient(in framework.Input) *client {
	c := &client{
		in: in, lines: map[string]*framework.Lines{framework.Stdout: {}, framework.Stderr: {}},
		number: greetingID, asked: greetingID, text: newTranscriber(),
	}
	if in.Definition == nil {
		c.in.Definition = &stint.Definition{}
	}
	c.spent.model = c.in.Definition.Model
	c.next = c.greet
	return c
}

// Write takes what the agent wrote.
func (c *client) Write(stream string, p []byte) (s framework.Step) {
	c.lines[stream].Write(p, c.reader(stream, &s))
	return s
}

// Flush takes a last line without its end.
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
		s.Events = append(s.Events, plain(stream, line)...)
	}
}

// plain is a line that is no part of the protocol.
func plain(stream string, line []byte) []stint.OutputData {
	text := make([]byte, 0, len(line)+1)
	return framework.Pieces(stream, append(append(text, line...), '\n'))
}

// read takes one line of the protocol.
func (c *client) read(line []byte, cut bool) framework.Step {
	if cut {
		return notice("long_line", fmt.Sprintf("A message of the agent of more than %d bytes was left out.", framework.MaxLine))
	}
	m, ok := parse(line)
	if !ok {
		if len(line) == 0 {
			return framework.Step{}
		}
		return framework.Step{Events: plain(framework.Stdout, line)}
	}
	var s framework.Step
	kind := m.Method
	switch {
	case m.isRequest():
		s = c.serve(&m)
	case m.Method == "session/update":
		var told bool
		if s, kind, told = c.update(m.Params); told {
			return s // its text is the event
		}
	case m.Method == "" && c.asked != 0 && m.isResponse(c.asked):
		kind, c.asked = "response", 0
		s = c.next(&m)
	}
	s.Native = []framework.Native{{Type: kind, Line: string(line)}}
	return s
}

// request sends one and remembers what to do with its answer.
func (c *client) request(method string, params any, next func(*message) framework.Step) framework.Step {
	c.number++
	c.asked, c.next = c.number, next
	return framework.Step{Send: call(c.number, method, params)}
}

func notice(code, text string) framework.Step {
	return framework.Step{Events: []stint.OutputData{transcript.Notice(code, text)}}
}

// Interrupt asks the agent to end its turn.
func (c *client) Interrupt() []byte {
	if !c.asking || c.end != nil {
		return nil
	}
	return call(0, "session/cancel", map[string]string{"sessionId": c.session})
}

// Conversation names the session.
func (c *client) Conversation() framework.Conversation {
	switch {
	case c.session != "":
		return framework.Conversation{Framework: "acp", Version: c.agent.Info.Version, ID: c.session}
	case c.in.Resume != nil:
		return *c.in.Resume // it never got to going on with it
	}
	return framework.Conversation{}
}

// decode reads a result of the agent; members of another type than the
// protocol's stay empty.
func decode[T any](raw json.RawMessage) (v T) {
	_ = json.Unmarshal(raw, &v) // part of a valid line, or missing
	return v
}
