package llmproxy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strconv"

	"github.com/stint-dev/stint"
)

const (
	maxLine       = 8 << 20  // bytes of an event; longer ones are not parsed
	maxResponse   = 16 << 20 // bytes of a JSON response; longer ones are not parsed
	maxModel      = 128      // bytes of a model's name
	maxTokens     = 1 << 40  // larger numbers are ignored
	bytesPerToken = 4        // for estimates
)

// usageMeter reads a response for its model and token usage: a JSON text, or
// server-sent events with one JSON text per data line. It is used by one
// goroutine.
type usageMeter struct {
	events   bool
	limit    int
	buf      []byte // the current line, or the response
	overflow bool   // the line or the response is longer than limit
	bytes    int64  // of the response
	model    string
	tokens   stint.Tokens // largest counts so far, as a provider repeats them
	text     int64        // bytes of the text that the model generated
}

func newUsageMeter(events bool) *usageMeter {
	m := &usageMeter{events: events, limit: maxResponse}
	if events {
		m.limit = maxLine
	}
	return m
}

// Write never fails.
func (m *usageMeter) Write(p []byte) (int, error) {
	m.bytes += int64(len(p))
	if !m.events {
		m.buffer(p)
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		m.buffer(line)
		if ended {
			m.parse()
		}
		rest = after
	}
	return len(p), nil
}

func (m *usageMeter) buffer(p []byte) {
	if m.overflow = m.overflow || len(m.buf)+len(p) > m.limit; !m.overflow {
		m.buf = append(m.buf, p...)
	}
}

// parse reads the buffered line or response and empties the buffer.
func (m *usageMeter) parse() {
	data, isData := m.buf, true
	if m.events {
		data, isData = bytes.CutPrefix(m.buf, []byte("data:"))
	}
	var v map[string]any
	if isData && !m.overflow && m.isRelevant(data) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if d.Decode(&v) == nil {
			m.add(v)
			m.text += textLength(v, "", !m.events)
		}
	}
	m.buf, m.overflow = m.buf[:0], false
}

// isRelevant reports whether data can contain usage, a model, or text.
func (m *usageMeter) isRelevant(data []byte) bool {
	return !m.events || bytes.Contains(data, []byte(`"usage"`)) || bytes.Contains(data, []byte(`"model"`)) || bytes.Contains(data, []byte(`"delta"`))
}

// add records model and usage of a response or an event, which may contain the
// response as message (Anthropic) or response (OpenAI).
func (m *usageMeter) add(v map[string]any) {
	if name, ok := v["model"].(string); ok && name != "" && len(name) <= maxModel {
		m.model = name
	}
	usage := object(v["usage"])
	in, out := object(first(usage, "input_tokens_details", "prompt_tokens_details")), object(first(usage, "output_tokens_details", "completion_tokens_details"))
	t := &m.tokens
	for _, c := range []struct {
		total *int64
		value any
	}{
		{&t.InputTokens, first(usage, "input_tokens", "prompt_tokens")},
		{&t.OutputTokens, first(usage, "output_tokens", "completion_tokens")},
		{&t.CacheReadTokens, usage["cache_read_input_tokens"]},
		{&t.CacheReadTokens, in["cached_tokens"]},
		{&t.CacheWriteTokens, usage["cache_creation_input_tokens"]},
		{&t.CacheWriteTokens, in["cache_write_tokens"]},
		{&t.ReasoningTokens, out["reasoning_tokens"]},
	} {
		*c.total = max(*c.total, count(c.value))
	}
	for _, name := range []string{"message", "response"} {
		if inner := object(v[name]); inner != nil {
			m.add(inner)
		}
	}
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

func first(v map[string]any, names ...string) any {
	for _, name := range names {
		if v[name] != nil {
			return v[name]
		}
	}
	return nil
}

// count returns a number of tokens, or 0 if v is not one.
func count(v any) int64 {
	number, _ := v.(json.Number)
	n, err := strconv.ParseUint(number.String(), 10, 63)
	if err != nil || n > maxTokens {
		return 0
	}
	return int64(n)
}

// textMembers are the members with text that the model generated.
var textMembers = map[string]bool{
	"content": true, "text": true, "thinking": true, "reasoning": true, "reasoning_content": true,
	"refusal": true, "arguments": true, "partial_json": true, "input": true,
}

// textLength returns the bytes of the text that the model generated, in the
// member name of a response. In events this text is below a delta only, as other
// events repeat it.
func textLength(v any, name string, inText bool) (n int64) {
	inText = inText || name == "delta"
	switch v := v.(type) {
	case string:
		if name == "delta" || inText && textMembers[name] {
			return int64(len(v))
		}
	case map[string]any:
		for name, member := range v {
			n += textLength(member, name, inText)
		}
	case []any:
		for _, element := range v {
			n += textLength(element, "", inText)
		}
	}
	return n
}

// usage returns the tokens of a call at the end of its response. If the response
// contains no usage, they are estimated from the bytes of the request and of the
// generated text. For an interrupted response, the estimate is the minimum of the
// output tokens.
func (m *usageMeter) usage(anthropic bool, requestBytes int64, interrupted bool) stint.Tokens {
	t := m.reported(anthropic)
	unknown := t.Total() == 0
	if unknown {
		t.InputTokens = requestBytes / bytesPerToken
	}
	if unknown || interrupted {
		text := m.text
		if !m.events && text == 0 {
			text = m.bytes // of an unknown form
		}
		t.OutputTokens = max(t.OutputTokens, text/bytesPerToken)
	}
	return t
}

// reported returns the usage in the response. Anthropic's input tokens do not
// include those of the cache.
func (m *usageMeter) reported(anthropic bool) stint.Tokens {
	m.parse()
	t := m.tokens
	t.ModelCalls = 1
	if anthropic {
		t.InputTokens += t.CacheReadTokens + t.CacheWriteTokens
	}
	return t
}

// gunzip buffers a compressed response for a meter.
type gunzip struct {
	meter      *usageMeter
	compressed bytes.Buffer
}

// Write never fails. Of a response that is too long, the rest is ignored.
func (g *gunzip) Write(p []byte) (int, error) {
	if g.compressed.Len() <= maxResponse {
		g.compressed.Write(p)
	}
	return len(p), nil
}

// finish writes the response to the meter, as far as it was received.
func (g *gunzip) finish() {
	if z, err := gzip.NewReader(&g.compressed); err == nil {
		_, _ = io.Copy(g.meter, z) //nolint:gosec // the meter is bounded
	}
}
