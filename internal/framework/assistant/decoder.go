package assistant

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

type decoder struct {
	*jsonlines.Reader[protocol.Line, *protocol.Line]
	open    map[string]string // last byte of each open message, by kind and ID
	session string
	last    *protocol.Line // the line of type end
}

func newDecoder() *decoder {
	d := &decoder{open: map[string]string{}}
	d.Reader = jsonlines.NewReader[protocol.Line](d.take)
	return d
}

func (d *decoder) take(s *framework.Step, kind string, l *protocol.Line, text []byte, cut bool) {
	if cut {
		s.Events = append(s.Events, jsonlines.TooLong())
	}
	s.Join(d.step(l))
	if kind != protocol.LineDelta && kind != protocol.LineDone && kind != protocol.LineWorking {
		s.Native = append(s.Native, framework.Native{Type: kind, Line: string(text)})
	}
}

func (d *decoder) step(l *protocol.Line) (s framework.Step) {
	switch l.Type {
	case protocol.LineStarted:
		d.session = l.Session
	case protocol.LineDelta:
		d.delta(&s, l)
	case protocol.LineDone:
		d.done(&s, l)
	case protocol.LineCall, protocol.LineResult:
		if l.Tool == nil {
			return s
		}
		if l.Type == protocol.LineCall {
			s.Events = append(s.Events, transcript.Call(*l.Tool))
		} else {
			s.Events = append(s.Events, transcript.Result(*l.Tool, l.Text))
		}
	case protocol.LineNotice:
		s.Events = append(s.Events, transcript.Notice(l.Code, l.Text))
	case protocol.LineUsage:
		s.Usage, s.Turns = l.Usage, l.Turns
	case protocol.LineEnd:
		d.last = l
		s.Ended, s.CloseStdin = true, true
	}
	return s
}

func (d *decoder) delta(s *framework.Step, l *protocol.Line) {
	if l.Text == "" || !isText(l.Kind) {
		return
	}
	s.Events = append(s.Events, transcript.Delta(l.Kind, l.ID, l.Text))
	d.open[string(l.Kind)+l.ID] = l.Text[len(l.Text)-1:]
}

func (d *decoder) done(s *framework.Step, l *protocol.Line) {
	if !isText(l.Kind) {
		return
	}
	if end, ok := transcript.EndDelta(l.Kind, l.ID, d.open[string(l.Kind)+l.ID]); ok {
		s.Events = append(s.Events, end)
	}
	delete(d.open, string(l.Kind)+l.ID)
}

func isText(kind stint.ItemKind) bool {
	return kind == stint.ItemMessage || kind == stint.ItemReasoning
}

func (d *decoder) Interrupt() []byte {
	return []byte(`{"type":"` + protocol.InputInterrupt + `"}` + "\n")
}

func (d *decoder) Verdict(exitCode int) framework.Verdict {
	switch l := d.last; {
	case l == nil:
		return framework.Verdict{Message: fmt.Sprintf("The assistant ended without a result (exit code %d).", exitCode)}
	case l.OK:
		return framework.Verdict{Completed: true, Final: l.Text}
	case l.Error == "":
		return framework.Verdict{Reason: l.Reason, Message: "The assistant failed without a message.", Final: l.Text}
	default:
		return framework.Verdict{Reason: l.Reason, Message: l.Error, Final: l.Text}
	}
}

func (d *decoder) Conversation() framework.Conversation {
	if d.session == "" {
		return framework.Conversation{}
	}
	return framework.Conversation{Framework: "assistant", ID: d.session}
}

// checkSession returns an error if a line of the conversation is not JSON. The last
// line may be incomplete. The conversation may be large, so checkSession does not
// split it into a slice of lines.
func checkSession(content []byte) error {
	for number := 1; len(content) > 0; number++ {
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		if !json.Valid(line) && len(rest) > 0 {
			return fmt.Errorf("line %d is not JSON", number)
		}
		content = rest
	}
	return nil
}
