package output

import (
	"encoding/json"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/plainjson"
)

// eventMasker masks the events that the decoder of a protocol returns. An event with
// a whole item is masked independently of other events. The pieces of a message, and the
// plain text of a stream, are masked as one text, because a secret may be split over
// several events.
type eventMasker struct {
	masker  *masking.Masker
	streams map[string]*masking.Stream // plain text, by stream
	open    *stint.Item                // first piece of the message that is arriving; nil if there is none
	pieces  *masking.Stream            // masks the pieces of open
}

func newEventMasker(m *masking.Masker) *eventMasker {
	return &eventMasker{masker: m, streams: map[string]*masking.Stream{framework.Stdout: m.Stream(), framework.Stderr: m.Stream()}}
}

// mask returns the events without secrets. The end of a text may be held back
// until more of it arrives.
func (m *eventMasker) mask(events []stint.OutputData) []stint.OutputData {
	var out []stint.OutputData
	for _, e := range events {
		if m.open != nil && !sameText(m.open, e.Item) {
			out = m.closePieces(out)
		}
		switch {
		case e.Item == nil:
			e.Content = string(m.streams[e.Stream].Write([]byte(e.Content)))
		case e.Item.Delta:
			if m.open == nil {
				m.open, m.pieces = e.Item, m.masker.Stream()
			}
			e.Content = string(m.pieces.Write([]byte(e.Content)))
			if e.Content == "" {
				continue
			}
		default:
			e.Content, e.Item = m.masker.Mask(e.Content), m.item(e.Item)
			e = transcript.Fit(e)
		}
		out = append(out, e)
	}
	return out
}

// sameText reports whether b is a further piece of the message of a.
func sameText(a, b *stint.Item) bool {
	return b != nil && b.Delta && a.Kind == b.Kind && a.MessageID == b.MessageID
}

// closePieces appends the text that is held back of the open message, and closes the
// message.
func (m *eventMasker) closePieces(out []stint.OutputData) []stint.OutputData {
	if rest := m.pieces.Flush(); len(rest) > 0 {
		out = append(out, stint.OutputData{Content: string(rest), Item: m.open})
	}
	m.open, m.pieces = nil, nil
	return out
}

// flush returns all texts that are held back.
func (m *eventMasker) flush() (out []stint.OutputData) {
	if m.open != nil {
		out = m.closePieces(out)
	}
	for _, stream := range []string{framework.Stdout, framework.Stderr} {
		if rest := m.streams[stream].Flush(); len(rest) > 0 {
			out = append(out, stint.OutputData{Content: string(rest), Stream: stream})
		}
	}
	return out
}

func (m *eventMasker) item(i *stint.Item) *stint.Item {
	masked := *i
	if i.Tool != nil {
		t := *i.Tool
		t.Title, t.Name = m.masker.Mask(t.Title), m.masker.Mask(t.Name)
		t.Input = m.input(t.Input)
		masked.Tool = &t
	}
	if len(i.Entries) > 0 {
		masked.Entries = make([]stint.PlanEntry, len(i.Entries))
		for n, e := range i.Entries {
			masked.Entries[n] = stint.PlanEntry{Content: m.masker.Mask(e.Content), Status: m.masker.Mask(e.Status)}
		}
	}
	return &masked
}

// input masks the strings of a JSON value. It returns nil for invalid JSON.
func (m *eventMasker) input(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	masked, err := plainjson.Marshal(m.masker.MaskJSON(v))
	if err != nil {
		return nil
	}
	return masked
}
