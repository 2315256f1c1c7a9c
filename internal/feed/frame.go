package feed

import (
	"strconv"

	"github.com/stint-dev/stint"
)

// frame is an event encoded by AppendFrame.
type frame struct {
	bytes []byte
	last  bool // the event is the run's last one, of type EventComplete
}

func encode(e *stint.Event) frame {
	b := make([]byte, 0, len(e.Type)+len(e.Data)+len(timeMember)+len(stint.TimeLayout)+40)
	return frame{bytes: AppendFrame(b, e), last: e.Type == stint.EventComplete}
}

// AppendFrame appends an event as a Server-Sent Events block: event, data, id.
// e.Data must be compact JSON, which contains no line break.
func AppendFrame(b []byte, e *stint.Event) []byte {
	b = append(b, "event: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: "...)
	b = appendData(b, e)
	b = append(b, "\nid: "...)
	b = strconv.AppendInt(b, e.Seq, 10)
	return append(b, '\n', '\n')
}

const timeMember = `,"timestamp":"`

// appendData appends the data of an event with the event's time as its last member.
func appendData(b []byte, e *stint.Event) []byte {
	b = append(b, e.Data[:len(e.Data)-1]...) // without the brace
	if len(e.Data) == len("{}") {
		b = append(b, timeMember[1:]...)
	} else {
		b = append(b, timeMember...)
	}
	b = e.At.UTC().AppendFormat(b, stint.TimeLayout)
	return append(b, `"}`...)
}
