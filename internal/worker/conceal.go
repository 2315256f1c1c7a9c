package worker

import (
	"encoding/json"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/masking"
)

// maxNative is the most of a line of the agent's protocol that its log shows,
// in bytes.
const maxNative = 64 << 10

// concealer masks what a protocol's decoder gives. Whole texts are masked as
// they are; pieces of one text, which a secret may be cut over, as one.
type concealer struct {
	masker  *masking.Masker
	streams map[string]*masking.Stream // plain text, by stream
	open    *stint.Item                // the message whose pieces come
	pieces  *masking.Stream
}

func newConcealer(m *masking.Masker) *concealer {
	return &concealer{masker: m, streams: map[string]*masking.Stream{framework.Stdout: m.Stream(), framework.Stderr: m.Stream()}}
}

// mask gives the events without secrets, some of them later than they came.
func (c *concealer) mask(events []stint.OutputData) []stint.OutputData {
	var out []stint.OutputData
	for _, e := range events {
		if c.open != nil && !sameText(c.open, e.Item) {
			out = c.closePieces(out)
		}
		switch {
		case e.Item == nil:
			e.Content = string(c.streams[e.Stream].Write([]byte(e.Content)))
		case e.Item.Delta:
			if c.open == nil {
				c.open, c.pieces = e.Item, c.masker.Stream()
			}
			e.Content = string(c.pieces.Write([]byte(e.Content)))
			if e.Content == "" {
				continue
			}
		default:
			e.Content, e.Item = c.masker.Mask(e.Content), c.item(e.Item)
			e = transcript.Fit(e)
		}
		out = append(out, e)
	}
	return out
}

func sameText(a, b *stint.Item) bool {
	return b != nil && b.Delta && a.Kind == b.Kind && a.MessageID == b.MessageID
}

// closePieces gives what is held back of a message.
func (c *concealer) closePieces(out []stint.OutputData) []stint.OutputData {
	if rest := c.pieces.Flush(); len(rest) > 0 {
		out = append(out, stint.OutputData{Content: string(rest), Item: c.open})
	}
	c.open, c.pieces = nil, nil
	return out
}

// flush gives everything that is held back.
func (c *concealer) flush() (out []stint.OutputData) {
	if c.open != nil {
		out = c.closePieces(out)
	}
	for _, stream := range []string{framework.Stdout, framework.Stderr} {
		if rest := c.streams[stream].Flush(); len(rest) > 0 {
			out = append(out, stint.OutputData{Content: string(rest), Stream: stream})
		}
	}
	return out
}

func (c *concealer) item(i *stint.Item) *stint.Item {
	masked := *i
	if i.Tool != nil {
		t := *i.Tool
		t.Title, t.Name = c.masker.Mask(t.Title), c.masker.Mask(t.Name)
		t.Input = c.input(t.Input)
		masked.Tool = &t
	}
	if len(i.Entries) > 0 {
		masked.Entries = make([]stint.PlanEntry, len(i.Entries))
		for n, e := range i.Entries {
			masked.Entries[n] = stint.PlanEntry{Content: c.masker.Mask(e.Content), Status: c.masker.Mask(e.Status)}
		}
	}
	return &masked
}

// input masks the strings of a JSON value; one that cannot be is left out.
func (c *concealer) input(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	masked, err := json.Marshal(c.masker.MaskJSON(v))
	if err != nil {
		return nil
	}
	return masked
}

// native logs a line of the agent's own protocol.
func (r *recorder) native(n framework.Native) {
	line, cut := r.masker.Mask(n.Line), false
	if len(line) > maxNative {
		line, cut = line[:maxNative], true
	}
	metadata := map[string]any{"framework": r.j.a.Plan.Definition.Framework, "native": true}
	if n.Type != "" {
		metadata["nativeType"] = r.masker.Mask(n.Type)
	}
	if cut {
		metadata["truncated"], metadata["bytes"] = true, len(n.Line)
	}
	r.queueLog(stint.LogEntry{
		Timestamp: stint.TimeOf(r.j.e.c.Now()), Type: stint.LogAgent, Level: "debug",
		Message: clean(line), Metadata: metadata,
	})
}
