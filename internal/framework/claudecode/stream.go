package claudecode

import (
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// partialMessage is a message that arrives in pieces.
type partialMessage struct {
	parent    string // tool call that started the sub-agent; empty for the main agent
	id, model string
	kind      stint.ItemKind // kind of the open block; empty if blocks of this kind are not reported
	hasPieces bool           // a piece of the open block was reported
	last      string         // last reported piece of the open block
	tokens    stint.Tokens
}

// blockKey identifies the blocks of one kind in one message.
type blockKey struct {
	id   string // of the message
	kind stint.ItemKind
}

// tokens are the model API's token counts. Input excludes cached tokens.
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

func (d *decoder) streamEvent(s *framework.Step, l *line) {
	at := d.streams[l.Parent]
	if at == nil {
		at = &partialMessage{parent: l.Parent}
		d.streams[l.Parent] = at
	}
	e := &l.Event
	switch e.Type {
	case "message_start":
		d.closeBlock(s, at)
		*at = partialMessage{parent: l.Parent, id: e.Message.ID, model: e.Message.Model}
		if e.Message.Usage != nil {
			at.tokens = e.Message.Usage.counted()
		}
	case "content_block_start":
		d.closeBlock(s, at)
		at.kind = blockKind(e.ContentBlock.Type)
		d.piece(s, at, &e.ContentBlock)
	case "content_block_delta":
		if e.Delta.Type == "text_delta" || e.Delta.Type == "thinking_delta" {
			d.piece(s, at, &e.Delta)
		}
	case "content_block_stop":
		d.closeBlock(s, at)
	case "message_delta":
		if e.Usage != nil {
			at.tokens = merged(at.tokens, e.Usage.counted())
		}
	case "message_stop":
		d.closeBlock(s, at)
		d.count(s, at)
		delete(d.streams, l.Parent)
	}
}

// merged returns the larger value of each count. Counts are cumulative, and later
// events of a message may omit some.
func merged(a, b stint.Tokens) stint.Tokens {
	return stint.Tokens{
		InputTokens: max(a.InputTokens, b.InputTokens), OutputTokens: max(a.OutputTokens, b.OutputTokens),
		CacheReadTokens: max(a.CacheReadTokens, b.CacheReadTokens), CacheWriteTokens: max(a.CacheWriteTokens, b.CacheWriteTokens),
		ModelCalls: 1,
	}
}

// count adds the tokens of a completed message to the usage of the run.
func (d *decoder) count(s *framework.Step, at *partialMessage) {
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

// piece reports a piece of the open block.
func (d *decoder) piece(s *framework.Step, at *partialMessage, b *block) {
	text := b.Text
	if at.kind == stint.ItemReasoning {
		text = b.Thinking
	}
	if at.kind == "" || text == "" {
		return
	}
	if !at.hasPieces {
		at.hasPieces = true
		d.unrepeated[blockKey{at.id, at.kind}]++
	}
	at.last = text
	d.open[at.parent] = at
	s.Events = append(s.Events, transcript.Delta(at.kind, at.id, text))
}

// closeBlock ends the open block of a message.
func (d *decoder) closeBlock(s *framework.Step, at *partialMessage) {
	d.endLine(s, at)
	at.kind, at.hasPieces = "", false
}

// endLine ends the last line of the open block, if the line is incomplete.
func (d *decoder) endLine(s *framework.Step, at *partialMessage) {
	if end, ok := transcript.EndDelta(at.kind, at.id, at.last); ok {
		s.Events = append(s.Events, end)
	}
	at.last = ""
	delete(d.open, at.parent)
}

// add appends an event to s, after it has ended the incomplete lines of all open
// messages. It ignores an event without content.
func (d *decoder) add(s *framework.Step, o stint.OutputData) {
	if o.Content == "" {
		return
	}
	for _, parent := range slices.Sorted(maps.Keys(d.open)) {
		d.endLine(s, d.open[parent])
	}
	s.Events = append(s.Events, o)
}

// endIfReported reports whether a block was already reported in pieces. If so, it
// ends the block.
func (d *decoder) endIfReported(s *framework.Step, parent string, c blockKey) bool {
	if d.unrepeated[c] == 0 {
		return false
	}
	if d.unrepeated[c]--; d.unrepeated[c] == 0 {
		delete(d.unrepeated, c)
	}
	if at := d.streams[parent]; at != nil && at.id == c.id && at.kind == c.kind {
		d.closeBlock(s, at)
	}
	return true
}
