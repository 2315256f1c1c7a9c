package acp

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxFinal is the longest final message that is kept, in bytes.
const maxFinal = 8 << 20

// transcriber turns updates of the agent into events, in order.
type transcriber struct {
	kind stint.ItemKind // of the open text; empty if none is open
	id   string
	end  string // the last piece of the open text
	made int    // number of texts without an ID

	message string // ID of the message in last
	last    strings.Builder

	tools map[string]*tool
	order []string // IDs of tools, oldest first
}

func newTranscriber() transcriber { return transcriber{tools: map[string]*tool{}} }

// textChunk is a piece of a message or a thought.
type textChunk struct {
	ID      string  `json:"messageId"`
	Content content `json:"content"`
}

// chunk returns the events for a chunk of a message or a thought.
func (t *transcriber) chunk(kind stint.ItemKind, raw json.RawMessage) []stint.OutputData {
	piece := decode[textChunk](raw)
	text := piece.Content.shown()
	if text == "" {
		return nil
	}
	var out []stint.OutputData
	if t.kind != kind || piece.ID != "" && piece.ID != t.id {
		out = t.close()
		if t.kind, t.id = kind, piece.ID; t.id == "" {
			t.made++
			t.id = "text-" + strconv.Itoa(t.made)
		}
	}
	for _, p := range framework.Pieces("", []byte(text)) {
		out = append(out, transcript.Delta(kind, t.id, p.Content))
		t.end = p.Content
	}
	if kind == stint.ItemMessage {
		t.appendFinal(text)
	}
	return out
}

// appendFinal appends to the final message.
func (t *transcriber) appendFinal(text string) {
	if t.message != t.id {
		t.message = t.id
		t.last.Reset()
	}
	t.last.WriteString(text[:min(len(text), maxFinal-t.last.Len())])
}

// final returns the agent's last message.
func (t *transcriber) final() string {
	return strings.TrimSpace(strings.ToValidUTF8(t.last.String(), "\uFFFD"))
}

// endText ends the open text.
func (t *transcriber) endText() []stint.OutputData {
	kind, id, end := t.kind, t.id, t.end
	t.kind, t.id, t.end = "", "", ""
	if kind == "" {
		return nil
	}
	if o, ok := transcript.EndDelta(kind, id, end); ok {
		return []stint.OutputData{o}
	}
	return nil
}

// close ends the open text and reports tool calls that were not reported yet.
func (t *transcriber) close() []stint.OutputData {
	out := t.endText()
	for _, id := range t.order {
		if tool := t.tools[id]; !tool.reported {
			out = append(out, tool.call())
		}
	}
	return out
}
