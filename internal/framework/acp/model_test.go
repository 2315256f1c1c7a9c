package acp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

func TestModels(t *testing.T) {
	t.Parallel()
	option := func(current string) string {
		return `{"sessionId":"s","configOptions":[{"id":"mode","category":"mode","currentValue":"a","options":[]},{"id":"model","category":"model","type":"select","currentValue":"` + current +
			`","options":[{"group":"g","name":"G","options":[{"value":"v-1","name":"Vee One"}]},{"value":"v-2","name":"Vee Two"}]}]}`
	}
	tests := map[string]struct{ model, session, want string }{
		"by value":            {"v-2", option("v-1"), `{"id":3,"method":"session/set_config_option","params":{"configId":"model","sessionId":"s","value":"v-2"}}`},
		"by name":             {"vee one", option("v-2"), `{"id":3,"method":"session/set_config_option","params":{"configId":"model","sessionId":"s","value":"v-1"}}`},
		"not listed":          {"v-9", option("v-2"), `{"id":3,"method":"session/set_config_option","params":{"configId":"model","sessionId":"s","value":"v-9"}}`},
		"used":                {"v-1", option("v-1"), ""},
		"models":              {"m-2", `{"sessionId":"s","models":{"currentModelId":"m-1","availableModels":[{"modelId":"m-2","name":"M"}]}}`, `{"id":3,"method":"session/set_model","params":{"modelId":"m-2","sessionId":"s"}}`},
		"models used":         {"m-1", `{"sessionId":"s","models":{"currentModelId":"m-1","availableModels":[]}}`, ""},
		"no choice of models": {"m-1", `{"sessionId":"s"}`, ""},
		"no model requested":  {"", option("v-1"), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, framework.Input{Definition: &stint.Definition{Model: tt.model}, Prompt: "Go."})
			a.says(`{"id":1,"result":{"protocolVersion":1}}`)
			prompt := `"method":"session/prompt","params":{"prompt":[{"type":"text","text":"Go."}],"sessionId":"s"}}`
			got := a.says(`{"id":2,"result":%s}`, tt.session)
			if tt.want == "" {
				equal(t, `{"id":3,`+prompt, got)
				return
			}
			equal(t, tt.want, got)
			equal(t, `{"id":4,`+prompt, a.says(`{"id":3,"error":{"code":-32602,"message":"no such model"}}`))
			a.want("notice: The agent did not accept the model '" + tt.model + "' and uses its own choice: no such model.\n")
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		result string
		want   stint.Tokens
	}{
		"cache beside input":    {`"usage":{"inputTokens":100,"outputTokens":17,"cachedReadTokens":20,"cachedWriteTokens":5,"totalTokens":142}`, stint.Tokens{InputTokens: 125, OutputTokens: 17, CacheReadTokens: 20, CacheWriteTokens: 5}},
		"cache within input":    {`"usage":{"inputTokens":125,"outputTokens":17,"cachedReadTokens":20,"cachedWriteTokens":5,"totalTokens":142}`, stint.Tokens{InputTokens: 125, OutputTokens: 17, CacheReadTokens: 20, CacheWriteTokens: 5}},
		"reasoning in addition": {`"usage":{"inputTokens":10,"outputTokens":5,"thoughtTokens":7,"cachedReadTokens":null,"totalTokens":22}`, stint.Tokens{InputTokens: 10, OutputTokens: 12, ReasoningTokens: 7}},
		"reasoning included":    {`"usage":{"inputTokens":10,"outputTokens":12,"thoughtTokens":7,"totalTokens":22}`, stint.Tokens{InputTokens: 10, OutputTokens: 12, ReasoningTokens: 7}},
		"quota":                 {`"_meta":{"quota":{"token_count":{"input_tokens":9,"output_tokens":9},"model_usage":[{"model":"a","token_count":{"input_tokens":4,"output_tokens":3}},{"model":"b","token_count":{"input_tokens":5,"output_tokens":6}}]}}`, stint.Tokens{InputTokens: 9, OutputTokens: 9}},
		"quota without models":  {`"usage":null,"_meta":{"quota":{"token_count":{"input_tokens":9,"output_tokens":8}}}`, stint.Tokens{InputTokens: 9, OutputTokens: 8}},
		"negative size":         {`"usage":{"inputTokens":-5,"outputTokens":1,"totalTokens":-4}`, stint.Tokens{OutputTokens: 1}},
		"numbers in wrong form": {`"usage":{"inputTokens":"5","outputTokens":1e300,"totalTokens":2,"thoughtTokens":{}}`, stint.Tokens{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, framework.Input{})
			a.greets(`{}`)
			a.updates(`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":2,"currency":"EUR"}}`)
			a.says(`{"id":3,"result":{"stopReason":"end_turn",%s}}`, tt.result)
			var got stint.Tokens
			if a.usage != nil {
				got = a.usage.Tokens
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}
