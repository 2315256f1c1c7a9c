package acp

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxFinal is the longest last message that is kept, in bytes.
const maxFinal = 8 << 20

// transcriber is what the agent tells of its work, in the order in which it is shown.
type transcriber struct {
	kind stint.ItemKind // of the text whose pieces come; empty: none
	id   string
	end  string // of what was told of it
	made int    // numbers texts that have no name

	message string // whose text last holds
	last    strings.Builder

	tools map[string]*tool
	order []string // of tools, as they came
}

func newTranscriber() transcriber { return transcriber{tools: map[string]*tool{}} }

// chunk is a piece of a text.
type chunk struct {
	ID      string  `json:"messageId"`
	Content content `json:"content"`
}

// say tells a piece of a message or a thought.
func (t *transcriber) say(kind stint.ItemKind, raw json.RawMessage) []stint.OutputData {
	piece := decode[chunk](raw)
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
		t.keep(text)
	}
	return out
}

// keep adds to the last message.
func (t *transcriber) keep(text string) {
	if t.message != t.id {
		t.message = t.id
		t.last.Reset()
	}
	t.last.WriteString(text[:min(len(text), maxFinal-t.last.Len())])
}

// final is the agent's last message.
func (t *transcriber) final() string {
	return strings.TrimSpace(strings.ToValidUTF8(t.last.String(), "\uFFFD"))
}

// hush ends the text whose pieces came.
func (t *transcriber) hush() []stint.OutputData {
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

// close ends what is open before something else is told: a text, and tools that
// were not told of yet.
func (t *transcriber) close() []stint.OutputData {
	out := t.hush()
	for _, id := range t.order {
		if tool := t.tools[id]; !tool.told {
			out = append(out, tool.call())
		}
	}
	return out
}
