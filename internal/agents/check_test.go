package agents_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
)

// What a framework cannot do is refused when it is stored.
func TestDefinitionsThatCannotWork(t *testing.T) {
	w := newWorld(t)
	shell := func(more string) string { return `{"name":"a","framework":"shell",` + more + `}` }
	for name, c := range map[string]struct{ raw, param, say string }{
		"tools without a use":    {shell(`"mcpServers":{"files":{"command":["mcp-files"]}}`), "mcpServers", "The framework 'shell' cannot use"},
		"no such model for it":   {`{"name":"a","framework":"acp","command":["agent"],"provider":{"type":"offline"}}`, "provider.type", "The framework 'acp' cannot use"},
		"a cost nobody tells":    {shell(`"limits":{"maxCostUsd":1}`), "limits.maxCostUsd", "needs 'provider.prices'"},
		"a cost without a price": {shell(`"model":"m","provider":{"type":"anthropic","prices":{"n":{"input":1,"output":2}}},"limits":{"maxCostUsd":1}`), "limits.maxCostUsd", "the price of the model 'm'"},
		"a schema that is none":  {shell(`"output":{"schema":{"type":7}}`), "output.schema", "is no JSON Schema"},
		"a schema of no form":    {shell(`"output":{"schema":[1]}`), "output.schema", "is no JSON Schema"},
		"a schema from afar":     {shell(`"output":{"schema":{"$ref":"http://127.0.0.1:1/x"}}`), "output.schema", "is no JSON Schema"},
	} {
		_, err := w.agents.Create(t.Context(), w.caller, []byte(c.raw))
		told, ok := errors.AsType[*stint.Error](err)
		if !ok || told.Kind != stint.KindInvalid || told.Param != c.param || !strings.Contains(told.Message, c.say) {
			t.Errorf("%s: %#v", name, err)
		}
	}
	made := w.create(shell(`"model":"m","provider":{"type":"anthropic","prices":{"*":{"input":1,"output":2}}},"limits":{"maxCostUsd":1},"output":{"schema":{"type":"object"}}`))
	for _, raw := range []string{shell(`"limits":{"maxCostUsd":1}`), shell(`"output":{"schema":{"type":7}}`)} {
		if _, _, err := w.agents.AddVersion(t.Context(), w.caller, made.ID, []byte(raw)); stint.KindOf(err) != stint.KindInvalid {
			t.Errorf("a version of %s: %v", raw, err)
		}
	}
}
