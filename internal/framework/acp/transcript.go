package acp

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxFinal is the maximum length of the final message in bytes. The rest is cut off.
const maxFinal = 8 << 20

// transcriber converts updates of the agent to events. At most one text (message or
// thought) is open at a time: more pieces of it may follow.
type transcriber struct {
	kind stint.ItemKind // kind of the open text; empty if no text is open
	id   string         // ID of the open text
	end  string         // the last piece of the open text
	made int            // number of texts that the agent sent without an ID

	message string          // ID of the message in last
	last    strings.Builder // text of the agent's last message

	tools map[string]*tool // tool calls by ID
	order []string         // IDs of the tool calls, oldest first
}

func newTranscriber() transcriber { return transcriber{tools: map[string]*tool{}} }

// textChunk is a piece of a message or a thought.
type textChunk struct {
	ID      string  `json:"messageId"`
	Content content `json:"content"`
}

// chunk returns the events for a piece of a message or a thought. If the piece
// belongs to another text than the open one, the open text is ended first.
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

// appendFinal appends text to the agent's last message. A text with another ID
// starts a new message.
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

// endText ends the open text. It returns the event for its end, if one is needed.
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
