package assistant

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/llm"
)

// lineWriter writes lines of JSON without buffering. It is safe for concurrent use.
type lineWriter struct {
	mu  sync.Mutex // guards the writing of one line
	enc *json.Encoder
}

func newLineWriter(w io.Writer) *lineWriter {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &lineWriter{enc: enc}
}

// write writes a line. It ignores errors, because they could only be reported on the
// same output.
func (v *lineWriter) write(l protocol.Line) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.enc.Encode(l)
}

func (v *lineWriter) notice(code, text string) {
	v.write(protocol.Line{Type: protocol.LineNotice, Code: code, Text: text})
}

// relay writes an answer while it arrives. Consecutive events of one kind, text or
// reasoning, form one message.
type relay struct {
	out    *lineWriter
	prefix string
	count  int
	kind   stint.ItemKind // of the open message; empty if there is none
	void   bool           // part of the answer was written; a retry makes this part void
}

func (r *relay) event(e llm.Event) {
	if e.Retry != nil {
		r.retry(e.Retry)
		return
	}
	kind := stint.ItemMessage
	if e.Kind == llm.Reasoning {
		kind = stint.ItemReasoning
	}
	if kind != r.kind {
		r.close()
		r.kind = kind
		r.count++
	}
	r.void = true
	r.out.write(protocol.Line{Type: protocol.LineDelta, Kind: kind, ID: r.id(), Text: e.Text})
}

func (r *relay) id() string { return fmt.Sprintf("%s_%d", r.prefix, r.count) }

// close ends the open message.
func (r *relay) close() {
	if r.kind != "" {
		r.out.write(protocol.Line{Type: protocol.LineDone, Kind: r.kind, ID: r.id()})
		r.kind = ""
	}
}

func (r *relay) retry(t *llm.Retry) {
	r.close()
	cause := strings.TrimSuffix(t.Cause.Error(), ".")
	text := fmt.Sprintf("The model's endpoint failed (%s); try %d of %d follows.", cause, t.Try+1, t.Of)
	if r.void {
		text = fmt.Sprintf("The answer was interrupted (%s) and is requested again, attempt %d of %d; its text so far is void.", cause, t.Try+1, t.Of)
	}
	r.void = false
	r.out.notice("api_retry", text)
}
