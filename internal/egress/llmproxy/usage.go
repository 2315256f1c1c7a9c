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
	maxLine     = 8 << 20  // bytes of a line of an event; longer lines are not parsed
	maxResponse = 16 << 20 // bytes of a JSON response; longer responses are not parsed
	// maxDecompressed bounds the work for a compressed response, in bytes. Text
	// after it is not counted.
	maxDecompressed = 128 << 20
	maxModel        = 128     // bytes of a model's name
	maxTokens       = 1 << 40 // larger numbers are ignored
	bytesPerToken   = 4       // for estimates
)

// usageMeter extracts the model's name and the token usage from a response that is
// written to it. The response is a JSON text, or server-sent events with one JSON
// text per data line. A usageMeter is not safe for concurrent use.
type usageMeter struct {
	events   bool // the response consists of server-sent events
	limit    int
	buf      []byte // the current line, or the response
	overflow bool   // the line or the response is longer than limit
	bytes    int64  // length of the response so far
	model    string
	tokens   stint.Tokens // largest counts so far, because later events repeat or increase them
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

// parse evaluates the buffered line or response and empties the buffer.
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

// add records the model and the usage in v, which is a response or an event. An event
// may contain the response in its member message (Anthropic) or response (OpenAI).
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

// count returns v as a number of tokens, or 0 if v is not an integer from 0 to maxTokens.
func count(v any) int64 {
	number, _ := v.(json.Number)
	n, err := strconv.ParseUint(number.String(), 10, 63)
	if err != nil || n > maxTokens {
		return 0
	}
	return int64(n)
}

// textMembers contains the names of the JSON members that hold text that the model
// generated.
var textMembers = map[string]bool{
	"content": true, "text": true, "thinking": true, "reasoning": true, "reasoning_content": true,
	"refusal": true, "arguments": true, "partial_json": true, "input": true,
}

// textLength returns the number of bytes of generated text in v, which is the value
// of the member called name. If inText is false, only text inside members called delta
// counts. It is false for events, because events without a delta repeat earlier text.
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

// usage returns the token usage of a call. It must be called at the end of the
// response. If the response contains no usage, the tokens are estimated from the size
// of the request and of the generated text. If the response was interrupted, the
// output tokens are at least this estimate.
func (m *usageMeter) usage(anthropic bool, requestBytes int64, interrupted bool) stint.Tokens {
	t := m.reported(anthropic)
	unknown := t.Total() == 0
	if unknown {
		t.InputTokens = requestBytes / bytesPerToken
	}
	if unknown || interrupted {
		text := m.text
		if !m.events && text == 0 {
			text = m.bytes // the format of the response is not known
		}
		t.OutputTokens = max(t.OutputTokens, text/bytesPerToken)
	}
	return t
}

// reported returns the usage that the response contains. Anthropic does not count
// cached tokens as input tokens, so reported adds them.
func (m *usageMeter) reported(anthropic bool) stint.Tokens {
	m.parse()
	t := m.tokens
	t.ModelCalls = 1
	if anthropic {
		t.InputTokens += t.CacheReadTokens + t.CacheWriteTokens
	}
	return t
}

// gunzip buffers a gzip-compressed response, which finish writes to the meter.
type gunzip struct {
	meter      *usageMeter
	compressed bytes.Buffer
}

// Write never fails. After more than maxResponse bytes, it ignores further calls.
func (g *gunzip) Write(p []byte) (int, error) {
	if g.compressed.Len() <= maxResponse {
		g.compressed.Write(p)
	}
	return len(p), nil
}

// finish decompresses the received part of the response and writes it to the meter.
func (g *gunzip) finish() {
	if z, err := gzip.NewReader(&g.compressed); err == nil {
		_, _ = io.Copy(g.meter, io.LimitReader(z, maxDecompressed))
	}
}
