package agents_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
)

func TestCreateChecksFramework(t *testing.T) {
	w := newWorld(t)
	shell := func(more string) string { return `{"name":"a","framework":"shell",` + more + `}` }
	for name, c := range map[string]struct{ raw, param, message string }{
		"unsupported MCP servers":                 {shell(`"mcpServers":{"files":{"command":["mcp-files"]}}`), "mcpServers", "The framework 'shell' cannot use"},
		"unsupported provider":                    {`{"name":"a","framework":"acp","command":["agent"],"provider":{"type":"offline"}}`, "provider.type", "The framework 'acp' cannot use"},
		"cost limit without prices":               {shell(`"limits":{"maxCostUsd":1}`), "limits.maxCostUsd", "needs 'provider.prices'"},
		"cost limit without a price of the model": {shell(`"model":"m","provider":{"type":"anthropic","prices":{"n":{"input":1,"output":2}}},"limits":{"maxCostUsd":1}`), "limits.maxCostUsd", "the price of the model 'm'"},
		"invalid schema":                          {shell(`"output":{"schema":{"type":7}}`), "output.schema", "is not a supported JSON Schema"},
		"schema of a wrong type":                  {shell(`"output":{"schema":[1]}`), "output.schema", "is not a supported JSON Schema"},
		"remote schema":                           {shell(`"output":{"schema":{"$ref":"http://127.0.0.1:1/x"}}`), "output.schema", "is not a supported JSON Schema"},
	} {
		_, err := w.agents.Create(t.Context(), w.caller, []byte(c.raw))
		public, ok := errors.AsType[*stint.Error](err)
		if !ok || public.Kind != stint.KindInvalid || public.Param != c.param || !strings.Contains(public.Message, c.message) {
			t.Errorf("%s: %#v", name, err)
		}
	}
	agent := w.create(shell(`"model":"m","provider":{"type":"anthropic","prices":{"*":{"input":1,"output":2}}},"limits":{"maxCostUsd":1},"output":{"schema":{"type":"object"}}`))
	for _, raw := range []string{shell(`"limits":{"maxCostUsd":1}`), shell(`"output":{"schema":{"type":7}}`)} {
		if _, _, err := w.agents.AddVersion(t.Context(), w.caller, agent.ID, []byte(raw)); stint.KindOf(err) != stint.KindInvalid {
			t.Errorf("AddVersion(%s): %v", raw, err)
		}
	}
}
