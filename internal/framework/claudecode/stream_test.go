package claudecode

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

// The decoder keeps no state of ended streams, and does not visit streams whose
// last line is complete, because the number of streams is not limited.
func TestEndedStreamsAreReleased(t *testing.T) {
	t.Parallel()
	d := newDecoder(framework.Input{Definition: &stint.Definition{}})
	say := func(format string, args ...any) framework.Step {
		return d.Write(framework.Stdout, fmt.Appendf(nil, format+"\n", args...))
	}
	event := func(parent int, event string) framework.Step {
		return say(`{"type":"stream_event","parent_tool_use_id":"p%d","event":%s}`, parent, event)
	}
	next := func() framework.Step {
		return say(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}`)
	}
	const streams = 100
	for i := range streams {
		event(i, fmt.Sprintf(`{"type":"message_start","message":{"id":"m%d","model":"m"}}`, i))
		event(i, `{"type":"content_block_start","content_block":{"type":"text","text":""}}`)
		event(i, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"word"}}`)
	}
	if n := len(next().Events); n != streams+1 {
		t.Errorf("%d events end %d lines and repeat a text", n, streams)
	}
	if len(d.open) != 0 || len(d.streams) != streams {
		t.Errorf("%d lines are open, %d messages", len(d.open), len(d.streams))
	}
	for i := range streams {
		event(i, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"more"}}`)
		event(i, `{"type":"message_stop"}`)
	}
	if len(d.open) != 0 || len(d.streams) != 0 {
		t.Errorf("%d lines are open after all messages, %d messages", len(d.open), len(d.streams))
	}
}

// The number of models in a result is limited.
func TestModelsInResultAreBounded(t *testing.T) {
	t.Parallel()
	d := newDecoder(framework.Input{Definition: &stint.Definition{}})
	line := []byte(`{"type":"result","subtype":"success","modelUsage":{`)
	for i := range 1000 {
		line = fmt.Appendf(line, `"m%d":{"inputTokens":1},`, i)
	}
	s := d.Write(framework.Stdout, append(line, "\"m\":{\"inputTokens\":1}}}\n"...))
	if len(s.Usage.Models) > 65 || s.Usage.InputTokens != 1001 {
		t.Errorf("%d models have %+v", len(s.Usage.Models), s.Usage.Tokens)
	}
}
