package llm

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// defaultMaxTokens is the default limit of an answer in tokens. The Messages API
// requires a limit.
const defaultMaxTokens = 16384

// anthropic is the dialect of Anthropic's Messages API.
type anthropic struct {
	maxTokens int64 // lower limit after the server refused a higher one; 0 if it refused none
}

func (d *anthropic) path() string { return "/v1/messages" }

func (d *anthropic) header(h http.Header, key string) {
	h.Set("X-Api-Key", key)
	h.Set("Anthropic-Version", "2023-06-01")
}

// relax lowers the limit of the answer's length if the server refused it, first to 8192
// tokens, then to 4096.
func (d *anthropic) relax(e *Error) bool {
	if e.Status != http.StatusBadRequest || !strings.Contains(e.Message, "max_tokens") {
		return false
	}
	switch d.maxTokens {
	case 0:
		d.maxTokens = 8192
	case 8192:
		d.maxTokens = 4096
	default:
		return false
	}
	return true
}

type (
	anthropicBody struct {
		Model     string             `json:"model"`
		MaxTokens int64              `json:"max_tokens"`
		System    []anthropicBlock   `json:"system,omitempty"`
		Messages  []anthropicMessage `json:"messages"`
		Tools     []anthropicTool    `json:"tools,omitempty"`
		Stream    bool               `json:"stream"`
	}
	anthropicMessage struct {
		Role    Role  `json:"role"`
		Content []any `json:"content"` // anthropicBlock, or Part.Native (json.RawMessage)
	}
	anthropicBlock struct {
		Type      string          `json:"type"`
		Text      string          `json:"text,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
		ToolUseID string          `json:"tool_use_id,omitempty"`
		Content   string          `json:"content,omitempty"`
		IsError   bool            `json:"is_error,omitempty"`
		Cache     *cacheControl   `json:"cache_control,omitempty"`
	}
	anthropicTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Schema      json.RawMessage `json:"input_schema"`
	}
	cacheControl struct {
		Type string `json:"type"`
	}
)

// body returns the body of a request. It marks the end of the instructions and of the
// conversation for the provider's prompt cache, because the next request starts with
// the same content.
func (d *anthropic) body(r Request) any {
	b := anthropicBody{Model: r.Model, MaxTokens: cmp.Or(r.MaxTokens, defaultMaxTokens), Stream: true}
	if d.maxTokens > 0 {
		b.MaxTokens = min(b.MaxTokens, d.maxTokens)
	}
	if r.Instructions != "" {
		b.System = []anthropicBlock{{Type: "text", Text: r.Instructions, Cache: &cacheControl{"ephemeral"}}}
	}
	for _, t := range r.Tools {
		b.Tools = append(b.Tools, anthropicTool(t))
	}
	for _, m := range r.Messages {
		blocks := d.blocks(m, d.origin(r.Model))
		switch n := len(b.Messages); {
		case len(blocks) == 0:
		case n > 0 && b.Messages[n-1].Role == m.Role:
			b.Messages[n-1].Content = append(b.Messages[n-1].Content, blocks...)
		default:
			b.Messages = append(b.Messages, anthropicMessage{m.Role, blocks})
		}
	}
	if n := len(b.Messages); n > 0 {
		content := b.Messages[n-1].Content
		if last, ok := content[len(content)-1].(anthropicBlock); ok {
			last.Cache = &cacheControl{"ephemeral"}
			content[len(content)-1] = last
		}
	}
	return b
}

func (d *anthropic) origin(model string) string { return stint.ProviderAnthropic + " " + model }

func (d *anthropic) blocks(m Message, origin string) (out []any) {
	for _, p := range m.Parts {
		switch {
		case p.Kind == Text && strings.TrimSpace(p.Text) != "":
			out = append(out, anthropicBlock{Type: "text", Text: p.Text})
		case p.Kind == Reasoning && p.Origin == origin && len(p.Native) > 0:
			out = append(out, p.Native)
		case p.Kind == ToolUse:
			out = append(out, anthropicBlock{Type: "tool_use", ID: plainID(p.ID), Name: p.Name, Input: p.Input})
		case p.Kind == ToolResult:
			out = append(out, anthropicBlock{Type: "tool_result", ToolUseID: plainID(p.ID), Content: p.Text, IsError: p.Failed})
		}
	}
	return out
}

// plainID returns the ID of a tool call, with characters that Anthropic does not accept
// replaced by underscores. IDs of other providers may contain such characters.
func plainID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

func (d *anthropic) reader(r Request, on func(Event)) reader {
	return &anthropicReader{on: on, origin: d.origin(r.Model), blocks: map[int]*openBlock{}}
}

type anthropicReader struct {
	on     func(Event)
	origin string
	blocks map[int]*openBlock
	stop   string
	ended  bool
	usage  anthropicUsage
}

// openBlock is a content block that is being received.
type openBlock struct {
	anthropicPiece
	text, input, signature strings.Builder
}

type anthropicUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

// anthropicPiece is a whole content block, the start of a block, or a delta of a block.
type anthropicPiece struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Partial   string          `json:"partial_json"`
	Stop      string          `json:"stop_reason"`
}

func (a *anthropicReader) event(data []byte) (last bool, err error) {
	var e struct {
		Type    string          `json:"type"`
		Index   int             `json:"index"`
		Block   *anthropicPiece `json:"content_block"`
		Delta   anthropicPiece  `json:"delta"`
		Usage   anthropicUsage  `json:"usage"`
		Message struct {
			Usage anthropicUsage `json:"usage"`
		} `json:"message"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, unreadable(err)
	}
	switch e.Type {
	case "message_start":
		a.count(e.Message.Usage)
	case "content_block_start":
		if e.Block != nil {
			a.begin(e.Index, *e.Block)
		}
	case "content_block_delta":
		a.add(e.Index, e.Delta)
	case "message_delta":
		a.count(e.Usage)
		if e.Delta.Stop != "" {
			a.stop, a.ended = e.Delta.Stop, true
		}
	case "message_stop":
		a.ended = true
		return true, nil
	case "error":
		f := failure(data)
		return true, streamed(f.Code, f.Message)
	}
	return false, nil
}

// count updates the token counts. Events contain cumulative counts and may omit some, so
// the larger value of each is kept.
func (a *anthropicReader) count(u anthropicUsage) {
	a.usage.Input = max(a.usage.Input, u.Input)
	a.usage.Output = max(a.usage.Output, u.Output)
	a.usage.CacheRead = max(a.usage.CacheRead, u.CacheRead)
	a.usage.CacheWrite = max(a.usage.CacheWrite, u.CacheWrite)
}

func (a *anthropicReader) begin(index int, p anthropicPiece) {
	b := &openBlock{anthropicPiece: p}
	a.blocks[index] = b
	if input := strings.TrimSpace(string(p.Input)); input != "{}" && input != "null" {
		b.input.WriteString(input)
	}
	a.add(index, anthropicPiece{Text: p.Text, Thinking: p.Thinking, Signature: p.Signature})
}

func (a *anthropicReader) add(index int, p anthropicPiece) {
	b := a.blocks[index]
	if b == nil {
		return
	}
	b.text.WriteString(p.Text + p.Thinking)
	b.input.WriteString(p.Partial)
	b.signature.WriteString(p.Signature)
	if p.Text != "" {
		a.on(Event{Kind: Text, Text: p.Text})
	}
	if p.Thinking != "" {
		a.on(Event{Kind: Reasoning, Text: p.Thinking})
	}
}

func (a *anthropicReader) whole(data []byte) error {
	var m struct {
		Content []anthropicPiece `json:"content"`
		Stop    string           `json:"stop_reason"`
		Usage   anthropicUsage   `json:"usage"`
		Error   json.RawMessage  `json:"error"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return unreadable(err)
	}
	if len(m.Error) > 0 && m.Content == nil {
		f := failure(data)
		return streamed(f.Code, f.Message)
	}
	for i, p := range m.Content {
		a.begin(i, p)
	}
	a.count(m.Usage)
	a.stop, a.ended = m.Stop, m.Content != nil
	return nil
}

func (a *anthropicReader) answer() (Answer, error) {
	if !a.ended {
		return Answer{}, brokenOff()
	}
	out := Answer{Stop: StopEnd, Usage: stint.Tokens{
		InputTokens:  a.usage.Input + a.usage.CacheRead + a.usage.CacheWrite,
		OutputTokens: a.usage.Output, CacheReadTokens: a.usage.CacheRead, CacheWriteTokens: a.usage.CacheWrite, ModelCalls: 1,
	}}
	switch a.stop {
	case "tool_use":
		out.Stop = StopTools
	case "max_tokens", "model_context_window_exceeded":
		out.Stop = StopLength
	case "refusal":
		out.Stop = StopRefusal
	}
	for _, i := range slices.Sorted(maps.Keys(a.blocks)) {
		if p, ok := a.part(a.blocks[i]); ok {
			out.Parts = append(out.Parts, p)
		}
	}
	return out, nil
}

func (a *anthropicReader) part(b *openBlock) (Part, bool) {
	switch b.Type {
	case "text":
		return Part{Kind: Text, Text: b.text.String()}, b.text.Len() > 0
	case "tool_use":
		return use(b.ID, b.Name, b.input.String()), true
	case "thinking":
		p := Part{Kind: Reasoning, Text: b.text.String(), Origin: a.origin}
		if b.signature.Len() > 0 {
			p.Native, _ = json.Marshal(map[string]string{"type": "thinking", "thinking": p.Text, "signature": b.signature.String()}) // strings can be encoded
		}
		return p, true
	case "redacted_thinking":
		native, _ := json.Marshal(map[string]string{"type": b.Type, "data": b.Data}) // strings can be encoded
		return Part{Kind: Reasoning, Native: native, Origin: a.origin}, true
	}
	return Part{}, false
}
