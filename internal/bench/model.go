package bench

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// model answers every call with the same words, in the dialect of its path.
type model struct {
	port int
	srv  *http.Server
	done chan struct{}
}

// startModel serves one on loopback, until it is closed.
func startModel() (*model, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{port: l.Addr().(*net.TCPAddr).Port, srv: &http.Server{Handler: http.HandlerFunc(speak), ReadHeaderTimeout: patience}, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		_ = m.srv.Serve(l) // until it is closed
	}()
	return m, nil
}

func (m *model) close() {
	_ = m.srv.Close()
	<-m.done
}

// host is the model's host and port, for those who call this machine so.
func (m *model) host(name string) string { return fmt.Sprintf("%s:%d", name, m.port) }

// url is the base URL that a framework wants.
func (m *model) url(framework, name string) string {
	if framework == "codex" {
		return "http://" + m.host(name) + "/v1"
	}
	return "http://" + m.host(name)
}

// said are the events of an answer, by the end of the path: for each its data,
// which begins with its type.
var said = map[string][]string{
	"/messages": {
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"bench","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":100,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Something."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":20}}`,
		`{"type":"message_stop"}`,
	},
	"/responses": {
		`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}`,
		`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}`,
		`{"type":"response.output_text.delta","sequence_number":2,"output_index":0,"content_index":0,"item_id":"msg_1","delta":"Something."}`,
		`{"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Something.","annotations":[]}]}}`,
		`{"type":"response.completed","sequence_number":4,"response":{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":0},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":120}}}`,
	},
}

func speak(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience))
	_, _ = io.Copy(io.Discard, r.Body)
	for end, events := range said {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, end) {
			continue
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range events {
			kind, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
		}
		return
	}
	w.WriteHeader(http.StatusNotFound)
}
