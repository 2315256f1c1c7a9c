package llm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/llm"
)

// endpoint is an http.RoundTripper that returns prepared replies in order, and records
// the requests.
type endpoint struct {
	replies  []reply
	requests []string // bodies
	headers  []http.Header
	paths    []string
}

type reply struct {
	status int
	kind   string // content type; empty for an event stream
	header map[string]string
	body   io.Reader
	err    error
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	e.requests, e.headers, e.paths = append(e.requests, string(body)), append(e.headers, r.Header), append(e.paths, r.URL.Path)
	if len(e.replies) == 0 {
		return nil, errors.New("no reply is left")
	}
	next := e.replies[0]
	e.replies = e.replies[1:]
	if next.err != nil {
		return nil, next.err
	}
	resp := &http.Response{StatusCode: max(next.status, 200), Header: http.Header{"Content-Type": {next.kind}}, Request: r}
	if next.kind == "" {
		resp.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	for name, value := range next.header {
		resp.Header.Set(name, value)
	}
	resp.Body = io.NopCloser(&bound{r.Context(), next.body})
	return resp, nil
}

// bound is the body of a response. If r is nil, Read blocks until the context of the
// request ends.
type bound struct {
	ctx context.Context
	r   io.Reader
}

func (b *bound) Read(p []byte) (int, error) {
	if b.r == nil { // the server sends nothing
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	return b.r.Read(p)
}

func stream(lines ...string) reply {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("data: " + l + "\n\n")
	}
	return reply{body: strings.NewReader(b.String())}
}

func refused(status int, body string) reply {
	return reply{status: status, kind: "application/json", body: strings.NewReader(body)}
}

// ask sends a request to e with a new client. It returns the answer, and the events as
// text.
func ask(t *testing.T, e *endpoint, kind string, r llm.Request, o llm.Options) (llm.Answer, string, error) {
	t.Helper()
	o.Type, o.Key, o.HTTP, o.URL = kind, "the-key", &http.Client{Transport: e}, "http://model.example/v1"
	if o.Sleep == nil {
		o.Sleep = func(context.Context, time.Duration) error { return nil }
	}
	c, err := llm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var events strings.Builder
	a, err := c.Ask(t.Context(), r, func(ev llm.Event) {
		if ev.Retry != nil {
			fmt.Fprintf(&events, "[retry %d of %d]", ev.Retry.Try, ev.Retry.Of)
			return
		}
		fmt.Fprintf(&events, "[%s %s]", ev.Kind, ev.Text)
	})
	return a, events.String(), err
}

var question = llm.Request{
	Model: "m-1", Instructions: "Be brief.",
	Tools: []llm.Tool{{Name: "bash", Description: "Runs.", Schema: json.RawMessage(`{"type":"object"}`)}},
	Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "first"}}},
		{Role: llm.Assistant, Parts: []llm.Part{
			{Kind: llm.Reasoning, Text: "mine", Native: json.RawMessage(`{"type":"thinking","thinking":"mine","signature":"s"}`), Origin: "anthropic m-1"},
			{Kind: llm.Reasoning, Text: "mine", Native: json.RawMessage(`{"type":"reasoning","summary":[],"encrypted_content":"e"}`), Origin: "openai-responses m-1"},
			{Kind: llm.Reasoning, Text: "of another", Native: json.RawMessage(`{"type":"alien"}`), Origin: "anthropic m-2"},
			{Kind: llm.Text, Text: "I look."},
			{Kind: llm.ToolUse, ID: "call:1", Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)},
		}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.ToolResult, ID: "call:1", Name: "bash", Text: "no such thing", Failed: true}}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "second"}}},
	},
}

var anthropicStream = []string{
	`{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":3,"output_tokens":1}}}`,
	`{"type":"ping"}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüß "}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"dich."}}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"command\":"}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"ls\"}"}}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}`,
	`{"type":"message_stop"}`,
}

var responsesStream = []string{
	`{"type":"response.created","response":{"status":"in_progress"}}`,
	`{"type":"response.reasoning_summary_text.delta","delta":"Hm."}`,
	`{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"enc"}}`,
	`{"type":"response.output_text.delta","delta":"Grüß "}`,
	`{"type":"response.output_text.delta","delta":"dich."}`,
	`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"Grüß dich."}]}}`,
	`{"type":"response.function_call_arguments.delta","delta":"{}"}`,
	`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"toolu_1","name":"bash","arguments":"{\"command\":\"ls\"}"}}`,
	`{"type":"response.completed","response":{"status":"completed","error":null,"usage":{"input_tokens":18,"output_tokens":20,"input_tokens_details":{"cached_tokens":5},"output_tokens_details":{"reasoning_tokens":4}}}}`,
}

var chatStream = []string{
	`{"choices":[{"delta":{"role":"assistant","content":null,"reasoning_content":"Hm."}}]}`,
	`{"choices":[{"delta":{"content":"Grüß "}}]}`,
	`{"choices":[{"delta":{"content":"dich."}}]}`,
	`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"toolu_1","type":"function","function":{"name":"bash","arguments":""}}]}}]}`,
	`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]}}]}`,
	`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"ls\"}"}}]}}]}`,
	`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
	`{"choices":[],"usage":{"prompt_tokens":18,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":4}}}`,
	`[DONE]`,
}

func TestStreams(t *testing.T) {
	t.Parallel()
	text := llm.Part{Kind: llm.Text, Text: "Grüß dich."}
	tool := llm.Part{Kind: llm.ToolUse, ID: "toolu_1", Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)}
	for kind, c := range map[string]struct {
		lines   []string
		thought llm.Part
		usage   stint.Tokens
	}{
		stint.ProviderAnthropic: {
			anthropicStream,
			llm.Part{Kind: llm.Reasoning, Text: "Hm.", Origin: "anthropic m-1", Native: json.RawMessage(`{"signature":"sig","thinking":"Hm.","type":"thinking"}`)},
			stint.Tokens{InputTokens: 18, OutputTokens: 20, CacheReadTokens: 5, CacheWriteTokens: 3, ModelCalls: 1},
		},
		stint.ProviderResponses: {
			responsesStream,
			llm.Part{Kind: llm.Reasoning, Text: "Hm.", Origin: "openai-responses m-1", Native: json.RawMessage(`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"enc"}`)},
			stint.Tokens{InputTokens: 18, OutputTokens: 20, CacheReadTokens: 5, ReasoningTokens: 4, ModelCalls: 1},
		},
		stint.ProviderChat: {
			chatStream,
			llm.Part{Kind: llm.Reasoning, Text: "Hm."},
			stint.Tokens{InputTokens: 18, OutputTokens: 20, CacheReadTokens: 5, ReasoningTokens: 4, ModelCalls: 1},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := stream(c.lines...)
			r.body = iotest.OneByteReader(r.body)
			got, events, err := ask(t, &endpoint{replies: []reply{r}}, kind, question, llm.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := llm.Answer{Stop: llm.StopTools, Parts: []llm.Part{c.thought, text, tool}, Usage: c.usage}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if want := "[reasoning Hm.][text Grüß ][text dich.]"; events != want {
				t.Errorf("events %q, want %q", events, want)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		path, header, key string
		lines             []string
		body              string
	}{
		stint.ProviderAnthropic: {"/v1/v1/messages", "X-Api-Key", "the-key", anthropicStream, `{"model":"m-1","max_tokens":16384,"stream":true,
			"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
			"tools":[{"name":"bash","description":"Runs.","input_schema":{"type":"object"}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"first"}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"mine","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"call_1","name":"bash","input":{"command":"ls"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"no such thing","is_error":true},{"type":"text","text":"second","cache_control":{"type":"ephemeral"}}]}]}`},
		stint.ProviderResponses: {"/v1/responses", "Authorization", "Bearer the-key", responsesStream, `{"model":"m-1","instructions":"Be brief.","stream":true,"store":false,"include":["reasoning.encrypted_content"],
			"tools":[{"type":"function","name":"bash","description":"Runs.","parameters":{"type":"object"},"strict":false}],
			"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"first"}]},
			{"type":"reasoning","summary":[],"encrypted_content":"e"},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
			{"type":"function_call","call_id":"call:1","name":"bash","arguments":"{\"command\":\"ls\"}"},
			{"type":"function_call_output","call_id":"call:1","output":"Error: no such thing"},
			{"type":"message","role":"user","content":[{"type":"input_text","text":"second"}]}]}`},
		stint.ProviderChat: {"/v1/chat/completions", "Authorization", "Bearer the-key", chatStream, `{"model":"m-1","stream":true,"stream_options":{"include_usage":true},
			"tools":[{"type":"function","function":{"name":"bash","description":"Runs.","parameters":{"type":"object"}}}],
			"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"first"},
			{"role":"assistant","content":"I look.","tool_calls":[{"id":"call:1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},
			{"role":"tool","content":"Error: no such thing","tool_call_id":"call:1"},{"role":"user","content":"second"}]}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := &endpoint{replies: []reply{stream(c.lines...)}}
			if _, _, err := ask(t, e, kind, question, llm.Options{}); err != nil {
				t.Fatal(err)
			}
			if e.paths[0] != c.path || e.headers[0].Get(c.header) != c.key {
				t.Errorf("asked at %s with %s %q", e.paths[0], c.header, e.headers[0].Get(c.header))
			}
			if d := cmp.Diff(decoded(t, c.body), decoded(t, e.requests[0])); d != "" {
				t.Error(d)
			}
		})
	}
}

func decoded(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Responses that deviate from the API are decoded like responses that conform to it.
func TestDeviatingServers(t *testing.T) {
	t.Parallel()
	calls := func(inputs ...string) (parts []llm.Part) {
		for i, in := range inputs {
			parts = append(parts, llm.Part{Kind: llm.ToolUse, ID: fmt.Sprintf("c%d", i+1), Name: "bash", Input: json.RawMessage(in)})
		}
		return parts
	}
	hello := []llm.Part{{Kind: llm.Text, Text: "Hello."}}
	for name, c := range map[string]struct {
		kind  string
		reply reply
		want  []llm.Part
		stop  llm.Stop
	}{
		"chat without a reason, usage and stream end":   {stint.ProviderChat, stream(`{"choices":[{"delta":{"content":"Hello."}}]}`, `[DONE]`), hello, llm.StopEnd},
		"chat without the end of a stream":              {stint.ProviderChat, stream(`{"choices":[{"delta":{"content":"Hello."},"finish_reason":"stop"}]}`), hello, llm.StopEnd},
		"chat calls without indices, inputs as objects": {stint.ProviderChat, stream(`{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"bash","arguments":{"a":1}}},{"id":"c2","function":{"name":"bash","arguments":"{}"}}]},"finish_reason":"stop"}]}`), calls(`{"a":1}`, `{}`), llm.StopTools},
		"chat that does not stream":                     {stint.ProviderChat, reply{kind: "application/json", body: strings.NewReader(`{"choices":[{"message":{"content":"Hello."},"finish_reason":"length"}]}`)}, hello, llm.StopLength},
		"comments, other fields, carriage returns":      {stint.ProviderChat, reply{body: strings.NewReader(": keep-alive\r\n\r\nevent: x\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},\r\ndata: \"finish_reason\":\"stop\"}]}\r\n\r\n")}, hello, llm.StopEnd},
		"responses with deltas only":                    {stint.ProviderResponses, stream(`{"type":"response.output_text.delta","delta":"Hello."}`, `{"type":"response.completed","response":{"status":"completed"}}`), hello, llm.StopEnd},
		"responses with the whole only":                 {stint.ProviderResponses, stream(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"Hello."}]}]}}`), hello, llm.StopLength},
		"responses that does not stream":                {stint.ProviderResponses, reply{kind: "application/json", body: strings.NewReader(`{"status":"completed","output":[{"type":"function_call","call_id":"c1","name":"bash","arguments":""}]}`)}, calls(`{}`), llm.StopTools},
		"anthropic that does not stream":                {stint.ProviderAnthropic, reply{kind: "application/json", body: strings.NewReader(`{"content":[{"type":"text","text":"Hello."}],"stop_reason":"refusal"}`)}, hello, llm.StopRefusal},
		"anthropic without a stop":                      {stint.ProviderAnthropic, stream(`{"type":"content_block_start","index":7,"content_block":{"type":"tool_use","id":"c1","name":"bash","input":{"a":1}}}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`), calls(`{"a":1}`), llm.StopTools},
		"input is not JSON":                             {stint.ProviderChat, stream(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"bash","arguments":"{\"a\":"}}]},"finish_reason":"length"}]}`), []llm.Part{{Kind: llm.ToolUse, ID: "c1", Name: "bash", Input: json.RawMessage(`{}`), Text: `{"a":`}}, llm.StopLength},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := ask(t, &endpoint{replies: []reply{c.reply}}, c.kind, question, llm.Options{Tries: 1})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(llm.Answer{Parts: c.want, Stop: c.stop, Usage: got.Usage}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTemporaryFailuresAreRetried(t *testing.T) {
	t.Parallel()
	good := stream(`{"choices":[{"delta":{"content":"Hello."},"finish_reason":"stop"}]}`)
	half := stream(`{"choices":[{"delta":{"content":"Hel"}}]}`)
	later := refused(429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
	later.header = map[string]string{"Retry-After": "7"}
	never := refused(503, ``)
	never.header = map[string]string{"Retry-After": "86400"}
	var waits []time.Duration
	e := &endpoint{replies: []reply{{err: io.ErrUnexpectedEOF}, later, refused(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), never, half, good}}
	a, events, err := ask(t, e, stint.ProviderChat, question, llm.Options{Sleep: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}})
	if err != nil || a.Text() != "Hello." {
		t.Fatalf("answer %+v, error %v", a, err)
	}
	if want := "[retry 1 of 6][retry 2 of 6][retry 3 of 6][retry 4 of 6][text Hel][retry 5 of 6][text Hello.]"; events != want {
		t.Errorf("events %q, want %q", events, want)
	}
	if waits[0] <= 0 || waits[0] > time.Second || waits[1] != 7*time.Second || waits[3] != time.Minute {
		t.Errorf("waited %v", waits)
	}
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	e := &endpoint{replies: []reply{refused(500, `oh`), refused(500, `no`), refused(500, `{"error":"down"}`)}}
	_, events, err := ask(t, e, stint.ProviderAnthropic, question, llm.Options{Tries: 3})
	fault, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	if d := cmp.Diff(&llm.Error{Status: 500, Message: "down", Retryable: true}, fault); d != "" {
		t.Error(d)
	}
	if events != "[retry 1 of 3][retry 2 of 3]" {
		t.Errorf("events %q", events)
	}
}

func TestErrorFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply reply
		want  llm.Fault
		again bool
	}{
		"key":                {refused(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`), llm.FaultKey, false},
		"forbidden":          {refused(403, `<html>no</html>`), llm.FaultKey, false},
		"model":              {refused(404, `{"error":{"message":"The model 'x' does not exist","code":"model_not_found"}}`), llm.FaultModel, false},
		"anthropic":          {refused(404, `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`), llm.FaultModel, false},
		"address":            {refused(404, `404 page not found`), llm.FaultAddress, false},
		"quota":              {refused(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`), llm.FaultQuota, false},
		"rate":               {refused(429, `{"message":"slow"}`), llm.FaultRate, true},
		"long, OpenAI":       {refused(400, `{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}`), llm.FaultContext, false},
		"long":               {refused(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), llm.FaultContext, false},
		"request":            {refused(422, `{"detail":"tools are not supported"}`), llm.FaultRequest, false},
		"server":             {refused(502, `bad gateway`), llm.FaultServer, true},
		"web page":           {reply{kind: "text/html", body: strings.NewReader("<html>welcome")}, llm.FaultAddress, false},
		"unreachable":        {refused(403, `{"error":{"type":"permission_error","message":"The model's provider is out of reach: the list of hosts."}}`), llm.FaultUnreachable, false},
		"hopeless":           {reply{status: 502, header: map[string]string{"X-Should-Retry": "false"}, body: strings.NewReader("{}")}, llm.FaultServer, false},
		"no connection":      {reply{err: errors.New("connection refused")}, llm.FaultUnreachable, true},
		"interrupted answer": {stream(`{"choices":[]}`), llm.FaultUnreachable, true},
		"in the stream":      {stream(`{"error":{"message":"boom","type":"server_error"}}`), llm.FaultServer, true},
		"unreadable":         {stream(`{`), llm.FaultServer, false},
		"silence":            {reply{}, llm.FaultUnreachable, true},
		"a line too long":    {reply{body: io.LimitReader(endless{}, 64<<20)}, llm.FaultUnreachable, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := llm.Options{Tries: 1}
			if name == "silence" {
				o.Idle = time.Millisecond
			}
			_, _, err := ask(t, &endpoint{replies: []reply{c.reply}}, stint.ProviderChat, question, o)
			fault, ok := errors.AsType[*llm.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if fault.Fault() != c.want || fault.Retryable != c.again || fault.Message == "" {
				t.Errorf("%v is %s, again %v; want %s, %v", fault, fault.Fault(), fault.Retryable, c.want, c.again)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// If the server does not support an optional feature, the request is repeated without
// the feature.
func TestRequestsAreRelaxed(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		refusal, with string
		lines         []string
	}{
		stint.ProviderChat:      {`{"error":"unknown field stream_options"}`, `"stream_options"`, chatStream},
		stint.ProviderResponses: {`{"error":{"message":"Encrypted content is not supported with this model."}}`, `"include"`, responsesStream},
		stint.ProviderAnthropic: {`{"error":{"type":"invalid_request_error","message":"max_tokens: 16384 > 8192"}}`, `"max_tokens":16384`, anthropicStream},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := &endpoint{replies: []reply{refused(400, c.refusal), stream(c.lines...)}}
			_, events, err := ask(t, e, kind, question, llm.Options{Tries: 1})
			if err != nil || strings.Contains(events, "retry") {
				t.Fatalf("events %q, error %v", events, err)
			}
			if !strings.Contains(e.requests[0], c.with) || strings.Contains(e.requests[1], c.with) {
				t.Errorf("asked %s\nthen %s", e.requests[0], e.requests[1])
			}
		})
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	e := &endpoint{replies: []reply{{err: errors.New("refused")}}}
	c, err := llm.New(llm.Options{Type: stint.ProviderChat, URL: "http://m.example/v1", HTTP: &http.Client{Transport: e}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ask(ctx, question, func(llm.Event) { cancel(stop) }); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if _, err := llm.New(llm.Options{Type: "telepathy"}); err == nil {
		t.Error("an unknown dialect was accepted")
	}
}

func FuzzAnswers(f *testing.F) {
	for _, lines := range [][]string{anthropicStream, responsesStream, chatStream} {
		for kind := range byte(3) {
			f.Add(kind, []byte("data: "+strings.Join(lines, "\n\ndata: ")+"\n\n"))
		}
	}
	kinds := []string{stint.ProviderAnthropic, stint.ProviderResponses, stint.ProviderChat}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		for _, content := range []string{"", "application/json"} {
			e := &endpoint{replies: []reply{{kind: content, body: bytes.NewReader(body)}}}
			a, _, err := ask(t, e, kinds[int(kind)%3], question, llm.Options{Tries: 1})
			if _, ok := errors.AsType[*llm.Error](err); err != nil && !ok {
				t.Fatalf("error %v", err)
			}
			if _, err := json.Marshal(a.Parts); err != nil {
				t.Fatalf("the answer cannot be kept: %v", err)
			}
		}
	})
}
