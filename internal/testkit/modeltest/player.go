package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// player sends one answer to the client. It waits before it continues, and closes the
// connection early, if the step requires this.
type player struct {
	w       http.ResponseWriter
	gone    <-chan struct{} // closed when the client has disconnected
	closing <-chan struct{} // closed when the server closes
	step    step
}

// stream sends the first event immediately and the others after the delay of the step.
// If the step is cut, stream closes the connection after half of the events.
func (p player) stream(events []event) {
	p.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	p.w.Header().Set("Cache-Control", "no-cache")
	for i, e := range events {
		if p.step.cut && i == (len(events)+1)/2 {
			panic(http.ErrAbortHandler) // closes the connection without ending the response
		}
		if _, err := p.w.Write(e.encode()); err != nil {
			return
		}
		_ = http.NewResponseController(p.w).Flush() // after an error, the next write fails, too
		if i == 0 {
			p.wait()
		}
	}
}

// whole sends an answer as one object after the delay of the step. If the step is cut,
// whole closes the connection after half of the bytes.
func (p player) whole(body object) {
	p.wait()
	data := encode(body)
	p.w.Header().Set("Content-Type", "application/json")
	p.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if p.step.cut {
		_, _ = p.w.Write(data[:len(data)/2])
		_ = http.NewResponseController(p.w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = p.w.Write(data) // the client may have disconnected
}

// wait waits for the delay of the step. If the client disconnects or the server closes,
// wait panics with http.ErrAbortHandler, which ends the response.
func (p player) wait() {
	if p.step.sleep == 0 {
		return
	}
	timer := time.NewTimer(p.step.sleep)
	defer timer.Stop()
	select {
	case <-timer.C:
		return
	case <-p.gone:
	case <-p.closing:
	}
	panic(http.ErrAbortHandler)
}

func (e event) encode() []byte {
	data, isText := e.data.(string)
	if !isText {
		data = string(encode(e.data))
	}
	if e.name == "" {
		return fmt.Appendf(nil, "data: %s\n\n", data)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.name, data)
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen, because answers contain only values that JSON can represent
	}
	return data
}
