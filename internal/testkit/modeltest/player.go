package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// player sends one answer, waiting and breaking off where its step says so.
type player struct {
	w       http.ResponseWriter
	gone    <-chan struct{} // closed when the client has left
	closing <-chan struct{} // closed when the server shall stop
	step    step
}

// stream sends events one by one: the first at once, the others after the
// step's wait, only half of them where it is cut.
func (p player) stream(events []event) {
	p.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	p.w.Header().Set("Cache-Control", "no-cache")
	for i, e := range events {
		if p.step.cut && i == (len(events)+1)/2 {
			panic(http.ErrAbortHandler) // the only way to break off what has begun
		}
		if _, err := p.w.Write(e.encode()); err != nil {
			return
		}
		_ = http.NewResponseController(p.w).Flush() // the next write tells what is wrong
		if i == 0 {
			p.wait()
		}
	}
}

// whole sends an answer in one piece.
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
	_, _ = p.w.Write(data) // a client that left is no fault of ours
}

// wait breaks off if there is nobody to go on for.
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
		panic(err) // answers are made of values that came from JSON
	}
	return data
}
