package llmproxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/llmproxy"
)

// Responses of the three model APIs, as streams of events and as whole bodies.
const (
	anthropicStart = `event: message_start
data: {"type":"message_start","message":{"model":"claude-x","id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":300,"ephemeral_1h_input_tokens":0},"output_tokens":3,"service_tier":"standard"}}}

`
	anthropicDelta = `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a word of \"usage\": {\"input_tokens\": 9999999} and so on"}}

`
	anthropicEnd = `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"output_tokens":77}}

event: message_stop
data: {"type":"message_stop"}

`
	anthropicBody  = `{"model":"claude-x","id":"msg_1","content":[{"type":"text","text":"hi","usage":{"input_tokens":5}}],"usage":{"input_tokens":12,"cache_creation_input_tokens":null,"cache_read_input_tokens":8,"output_tokens":77}}`
	responsesStart = "event: response.created\r\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-x\",\"tools\":[{\"usage\":{\"input_tokens\":1000000}}],\"usage\":null}}\r\n\r\n"
	responsesEnd   = "event: response.completed\r\ndata: {\"type\":\"response.completed\",\"sequence_number\":9,\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-x\",\"output\":[{\"content\":[{\"text\":\"{\\\"usage\\\"\"}]}],\"usage\":{\"input_tokens\":200,\"input_tokens_details\":{\"cached_tokens\":80},\"output_tokens\":40,\"output_tokens_details\":{\"reasoning_tokens\":10},\"total_tokens\":240}}}\r\n\r\n"
	chatChunk      = `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-y","choices":[{"index":0,"delta":{"content":"so"},"finish_reason":null}],"usage":null}

`
	chatEnd = `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-y","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":20,"total_tokens":50,"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":4}}}

data: [DONE]

`
	chatBody = `{"usage" : {"prompt_tokens" : 30, "completion_tokens":20}, "model":"gpt-y","choices":[{"message":{"content":"\\\"","role":"assistant"}}]}`
)

func TestMeter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer      string
		events, anthropic bool
		model             string
		want              stint.Tokens
	}{
		{"anthropic", anthropicStart + strings.Repeat(anthropicDelta, 3) + anthropicEnd, true, true, "claude-x", stint.Tokens{InputTokens: 4312, OutputTokens: 77, CacheReadTokens: 4000, CacheWriteTokens: 300}},
		{"anthropic, cut off", anthropicStart + anthropicDelta[:60], true, true, "claude-x", stint.Tokens{InputTokens: 4312, OutputTokens: 3, CacheReadTokens: 4000, CacheWriteTokens: 300}},
		{"anthropic, a body", anthropicBody, false, true, "claude-x", stint.Tokens{InputTokens: 20, OutputTokens: 77, CacheReadTokens: 8}},
		{"responses", responsesStart + responsesEnd, true, false, "gpt-x", stint.Tokens{InputTokens: 200, OutputTokens: 40, CacheReadTokens: 80, ReasoningTokens: 10}},
		{"responses, cut off", responsesStart, true, false, "gpt-x", stint.Tokens{}},
		{"chat", chatChunk + chatChunk + chatEnd, true, false, "gpt-y", stint.Tokens{InputTokens: 30, OutputTokens: 20, CacheReadTokens: 16, ReasoningTokens: 4}},
		{"chat, a body", chatBody, false, false, "gpt-y", stint.Tokens{InputTokens: 30, OutputTokens: 20}},
		{"an event of an error", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", true, true, "", stint.Tokens{}},
		{"a long line", strings.Replace(responsesEnd, "resp_1", strings.Repeat("r", 40<<10), 1), true, false, "gpt-x", stint.Tokens{InputTokens: 200, OutputTokens: 40, CacheReadTokens: 80, ReasoningTokens: 10}},
		{"a long line of something else", "id: " + strings.Repeat("r", 40<<10) + chatEnd, true, false, "", stint.Tokens{}},
		{"a last line without end", strings.TrimRight(anthropicStart, "\n"), true, true, "claude-x", stint.Tokens{InputTokens: 4312, OutputTokens: 3, CacheReadTokens: 4000, CacheWriteTokens: 300}},
		{"no JSON", "data: {\"usage\"]}\n\n" + chatEnd, true, false, "gpt-y", stint.Tokens{InputTokens: 30, OutputTokens: 20, CacheReadTokens: 16, ReasoningTokens: 4}},
		{"too many to be true", `{"model":"m","usage":{"input_tokens":99999999999999999999,"output_tokens":-5,"cache_read_input_tokens":1.5}}`, false, true, "m", stint.Tokens{}},
		{"a name that is too long", `{"model":"` + strings.Repeat("m", 200) + `","usage":{"input_tokens":1}}`, false, true, "", stint.Tokens{InputTokens: 1}},
		{"too deep", strings.Repeat("[", 600), false, true, "", stint.Tokens{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.ModelCalls = 1
			for _, n := range []int{1, 2, 7, 64, 1 << 20} {
				model, got := llmproxy.Metered([]byte(c.answer), c.events, c.anthropic, n)
				if diff := cmp.Diff(c.want, got); diff != "" || model != c.model {
					t.Errorf("in pieces of %d: %q\n%s", n, model, diff)
				}
			}
		})
	}
}

// If a response reports no usage, the usage is estimated: one token for four bytes of the
// request, and one token for four bytes of the generated text.
func TestUsageIsEstimated(t *testing.T) {
	t.Parallel()
	word := strings.Repeat("w", 40)
	quiet := strings.Replace(chatChunk, `"so"`, `"`+word+`","reasoning_content":"`+word+`","role":"assistant"`, 1)
	calls := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"` + word + `"}}]}}]}` + "\n\n"
	said := responsesStart + `data: {"type":"response.output_text.delta","delta":"` + word + `","obfuscation":"xxxxxxxx","logprobs":[]}` + "\n\n" + `data: {"type":"response.output_text.done","text":"` + word + `"}` + "\n\n"
	thought := anthropicStart + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + word + `"}}` + "\n\n"
	for _, c := range []struct {
		name, answer           string
		events, anthropic, cut bool
		want                   stint.Tokens
	}{
		{"chat without usage", quiet + quiet + calls + "data: [DONE]\n\n", true, false, false, stint.Tokens{InputTokens: 25, OutputTokens: 50}},
		{"chat, cut off", quiet, true, false, true, stint.Tokens{InputTokens: 25, OutputTokens: 20}},
		{"chat with usage", quiet + chatEnd, true, false, false, stint.Tokens{InputTokens: 30, OutputTokens: 20, CacheReadTokens: 16, ReasoningTokens: 4}},
		{"chat, a body", `{"choices":[{"message":{"role":"assistant","content":"` + word + `","tool_calls":[{"function":{"arguments":"` + word + `"}}]}}]}`, false, false, false, stint.Tokens{InputTokens: 25, OutputTokens: 20}},
		{"responses, cut off", said, true, false, true, stint.Tokens{InputTokens: 25, OutputTokens: 10}},
		{"responses, a body", `{"instructions":"` + word + `","output":[{"content":[{"type":"output_text","text":"` + word + `"}]}],"usage":null}`, false, false, false, stint.Tokens{InputTokens: 25, OutputTokens: 10}},
		{"anthropic, cut off", thought, true, true, true, stint.Tokens{InputTokens: 4312, OutputTokens: 10, CacheReadTokens: 4000, CacheWriteTokens: 300}},
		{"anthropic, cut off at once", anthropicStart, true, true, true, stint.Tokens{InputTokens: 4312, OutputTokens: 3, CacheReadTokens: 4000, CacheWriteTokens: 300}},
		{"of no known form", "<html>" + word, false, false, false, stint.Tokens{InputTokens: 25, OutputTokens: 11}},
		{"nothing", "", false, false, false, stint.Tokens{InputTokens: 25}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.ModelCalls = 1
			if diff := cmp.Diff(c.want, llmproxy.Estimated([]byte(c.answer), c.events, c.anthropic, 100, c.cut)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzMeter checks that the result does not depend on how a response is split, and that the
// number of output tokens equals the number that encoding/json decodes.
func FuzzMeter(f *testing.F) {
	for _, seed := range []string{anthropicBody, chatBody, anthropicStart + anthropicEnd, responsesStart + responsesEnd, chatEnd, `{"usage":{"input_tokens":1}}`, "{\"a\":[{}, \"\\u00e9\", 1e3],\"usage\":{\"output_tokens\":7}}"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		n = max(1, n%97)
		for _, events := range []bool{false, true} {
			_, whole := llmproxy.Metered(b, events, true, len(b)+1)
			if _, parts := llmproxy.Metered(b, events, true, n); parts != whole {
				t.Errorf("events %t: %+v as a whole, %+v in pieces of %d", events, whole, parts, n)
			}
		}
		var decoded struct {
			Usage struct {
				Output json.RawMessage `json:"output_tokens"`
			} `json:"usage"`
		}
		if !unique(b) || json.Unmarshal(b, &decoded) != nil {
			return
		}
		var want int64
		if s := string(decoded.Usage.Output); s != "" && strings.Trim(s, "0123456789") == "" && len(s) < 12 {
			_, _ = fmt.Sscan(s, &want)
		}
		if _, got := llmproxy.Metered(b, false, false, n); got.OutputTokens != want && len(decoded.Usage.Output) < 12 {
			t.Errorf("%d tokens, want %d", got.OutputTokens, want)
		}
	})
}

// unique reports whether the names of the relevant keys occur at most once and unescaped in
// b. In other cases, the meter and encoding/json may interpret b differently.
func unique(b []byte) bool {
	s := strings.ToLower(string(b))
	return strings.Count(s, "usage") <= 1 && strings.Count(s, "tokens") <= 1 && strings.Count(s, "output_tokens\"") <= 1 && !strings.Contains(s, `\`) && !strings.Contains(s, "message") && !strings.Contains(s, "response")
}

func BenchmarkMeter(b *testing.B) {
	words := `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" some words of an answer, as they come"}}`
	for _, c := range []struct{ name, answer string }{
		{"anthropic", anthropicStart + strings.Repeat("event: content_block_delta\n"+words+"\n\n", 500) + anthropicEnd},
		{"responses", responsesStart + strings.Repeat("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":7,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" words\",\"logprobs\":[]}\n\n", 500) + responsesEnd},
		{"chat", strings.Repeat(chatChunk, 500) + chatEnd},
	} {
		for _, size := range []int{200, 32 << 10} {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) {
				m, answer := llmproxy.NewUsageMeter(true), []byte(c.answer)
				b.SetBytes(int64(len(answer)))
				b.ReportAllocs()
				for b.Loop() {
					for p := answer; len(p) > 0; {
						n := min(size, len(p))
						_, _ = m.Write(p[:n])
						p = p[n:]
					}
				}
			})
		}
	}
}
