package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// player sends one answer. It waits and closes the connection as the step requires.
type player struct {
	w       http.ResponseWriter
	gone    <-chan struct{} // closed when the client has disconnected
	closing <-chan struct{} // closed when the server closes
	step    step
}

// stream sends the first event immediately and the others after the delay of the step.
// If the step is cut, it sends only half of them.
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

// whole sends an answer as one object.
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

// wait waits for the delay of the step. It ends the response if the client
// disconnects or the server closes.
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
		panic(err) // answers contain only values from JSON
	}
	return data
}
