package feed

import (
	"strconv"

	"github.com/stint-dev/stint"
)

// frame is an event as the stream writes it.
type frame struct {
	bytes []byte
	last  bool // the complete event
}

func encode(e *stint.Event) frame {
	b := make([]byte, 0, len(e.Type)+len(e.Data)+40)
	return frame{bytes: AppendFrame(b, e), last: e.Type == stint.EventComplete}
}

// AppendFrame writes an event as a Server-Sent Events block: event, data, id.
// Data holds no line break, being compact JSON.
func AppendFrame(b []byte, e *stint.Event) []byte {
	b = append(b, "event: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: "...)
	b = append(b, e.Data...)
	b = append(b, "\nid: "...)
	b = strconv.AppendInt(b, e.Seq, 10)
	return append(b, '\n', '\n')
}
