package claudecode

import (
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// stream is a message that comes in pieces.
type stream struct {
	parent    string // the tool that a sub-agent runs for
	id, model string
	kind      stint.ItemKind // of the block that is open; empty for none that is shown
	begun     bool           // a piece of it was told
	last      string         // piece of its line
	tokens    stint.Tokens
}

// claim names blocks of a message that were told in pieces.
type claim struct {
	id   string
	kind stint.ItemKind
}

// tokens are counts as the API gives them: input is what no cache held.
type tokens struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

func (t tokens) counted() stint.Tokens {
	return stint.Tokens{
		InputTokens: t.Input + t.CacheRead + t.CacheWrite, OutputTokens: t.Output,
		CacheReadTokens: t.CacheRead, CacheWriteTokens: t.CacheWrite, ModelCalls: 1,
	}
}

func (d *decoder) streamEvent(s *framework.Step) {
	parent := d.Line.Text("parent_tool_use_id")
	at := d.streams[parent]
	if at == nil {
		at = &stream{parent: parent}
		d.streams[parent] = at
	}
	e := &d.event
	e.Read(d.Line.Raw("event"))
	switch e.Text("type") {
	case "message_start":
		d.closeBlock(s, at)
		d.beginMessage(at)
	case "content_block_start":
		d.closeBlock(s, at)
		d.part.Read(e.Raw("content_block"))
		at.kind = blockKind(d.part.Text("type"))
		d.piece(s, at, d.part.Text(blockMember[at.kind]))
	case "content_block_delta":
		d.part.Read(e.Raw("delta"))
		switch d.part.Text("type") {
		case "text_delta", "thinking_delta":
			d.piece(s, at, d.part.Text(blockMember[at.kind]))
		}
	case "content_block_stop":
		d.closeBlock(s, at)
	case "message_delta":
		var t tokens
		if e.Decode("usage", &t) {
			at.tokens = merged(at.tokens, t.counted())
		}
	case "message_stop":
		d.closeBlock(s, at)
		d.count(s, at)
		delete(d.streams, parent)
	}
}

// beginMessage forgets the message before.
func (d *decoder) beginMessage(at *stream) {
	d.part.Read(d.event.Raw("message"))
	*at = stream{parent: at.parent, id: d.part.Text("id"), model: d.part.Text("model")}
	var t tokens
	if d.part.Decode("usage", &t) {
		at.tokens = t.counted()
	}
}

// merged are the newest counts of a message: a later one may leave out what an
// earlier one told.
func merged(a, b stint.Tokens) stint.Tokens {
	return stint.Tokens{
		InputTokens: max(a.InputTokens, b.InputTokens), OutputTokens: max(a.OutputTokens, b.OutputTokens),
		CacheReadTokens: max(a.CacheReadTokens, b.CacheReadTokens), CacheWriteTokens: max(a.CacheWriteTokens, b.CacheWriteTokens),
		ModelCalls: 1,
	}
}

// count adds a message that came to its end.
func (d *decoder) count(s *framework.Step, at *stream) {
	if at.tokens.Total() == 0 {
		return
	}
	d.usage.Count(at.model, at.tokens)
	at.tokens = stint.Tokens{}
	usage := d.usage.Clone()
	s.Usage = &usage
}

func blockKind(name string) stint.ItemKind {
	switch name {
	case "text":
		return stint.ItemMessage
	case "thinking":
		return stint.ItemReasoning
	}
	return ""
}

// blockMember is where a block and its pieces have their text.
var blockMember = map[stint.ItemKind]string{stint.ItemMessage: "text", stint.ItemReasoning: "thinking"}

// piece tells a piece of the open block.
func (d *decoder) piece(s *framework.Step, at *stream, text string) {
	if at.kind == "" || text == "" {
		return
	}
	if !at.begun {
		at.begun = true
		d.unclaimed[claim{at.id, at.kind}]++
	}
	at.last = text
	d.open[at.parent] = at
	s.Events = append(s.Events, transcript.Delta(at.kind, at.id, text))
}

// closeBlock ends the open block.
func (d *decoder) closeBlock(s *framework.Step, at *stream) {
	d.endLine(s, at)
	at.kind, at.begun = "", false
}

// endLine ends the line of the open block.
func (d *decoder) endLine(s *framework.Step, at *stream) {
	if end, ok := transcript.EndDelta(at.kind, at.id, at.last); ok {
		s.Events = append(s.Events, end)
	}
	at.last = ""
	delete(d.open, at.parent)
}

// tell adds an event that is no piece, on a line of its own.
func (d *decoder) tell(s *framework.Step, o stint.OutputData) {
	if o.Content == "" {
		return
	}
	for _, parent := range slices.Sorted(maps.Keys(d.open)) {
		d.endLine(s, d.open[parent])
	}
	s.Events = append(s.Events, o)
}

// told reports whether a block that comes whole came in pieces before, and ends
// those.
func (d *decoder) told(s *framework.Step, parent string, c claim) bool {
	if d.unclaimed[c] == 0 {
		return false
	}
	if d.unclaimed[c]--; d.unclaimed[c] == 0 {
		delete(d.unclaimed, c)
	}
	if at := d.streams[parent]; at != nil && at.id == c.id && at.kind == c.kind {
		d.closeBlock(s, at)
	}
	return true
}
