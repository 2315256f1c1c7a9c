package egress_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/policy"
)

// openAI opens an uplink with a model of kind, one of the OpenAI APIs, at provider.test.
func (w *testInternet) openAI(t testing.TB, kind string) (*testSandbox, *usageRecorder) {
	t.Helper()
	c := newUsageRecorder()
	return w.open(t, options{mode: policy.None, run: func(r *egress.RunConfig) { r.Model = c.model(kind, "http://provider.test/v1") }}), c
}

// If a stream reports no usage, the tokens are estimated from the lengths of the request and
// of the text.
func TestModelEstimatesMissingUsage(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, strings.Repeat("data: {\"model\":\"m-2026\",\"choices\":[{\"delta\":{\"content\":\"word\"}}],\"usage\":null}\n\n", 6))
		_, _ = io.WriteString(rw, "data: [DONE]\n\n")
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.openAI(t, stint.ProviderChat)
	asked := `{"model":"m","stream":true,"messages":[]}`
	if status, body, _ := b.post("http://model.stint.internal/v1/chat/completions", asked); status != 200 || !strings.HasSuffix(body, "[DONE]\n\n") {
		t.Errorf("%d %s", status, body)
	}
	c.is(t, stint.Tokens{InputTokens: int64(len(asked) / 4), OutputTokens: 6, ModelCalls: 1})
	if c.models[0] != [2]string{"m-2026", "m"} {
		t.Errorf("counted for %v", c.models)
	}
}

// The tokens of a response in the background cannot be counted, so requests for such a
// response are refused.
func TestModelRefusesBackground(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil {
			return // the request was interrupted
		}
		if strings.Contains(string(got), "true") {
			t.Errorf("the provider was asked %s", got)
		}
		_, _ = io.WriteString(rw, `{"model":"m","usage":{"input_tokens":1}}`)
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.openAI(t, stint.ProviderResponses)
	const responses = "http://model.stint.internal/v1/responses"
	for _, body := range []string{
		`{"model":"m","background":true}`,
		`{"background" : true , "model":"m"}`,
		`{"background":false,"background":true}`,
		`{"backgr\u006fund":true}`,
		`{"Background":true}`,
		`{"background":"true"}`,
		`{"background":1}`,
		`{"input":"` + strings.Repeat("x", 100<<10) + `","background":true}`,
	} {
		if status, answer, h := b.post(responses, body); status != 400 || !strings.Contains(answer, "Omit 'background'") || h.Get("X-Should-Retry") != "false" {
			t.Errorf("%.60s: %d %s", body, status, answer)
		}
	}
	utf16 := strings.Join(strings.Split(`{"background":true}`, ""), "\x00") + "\x00"
	for _, body := range []string{"\ufeff{\"background\":true}", "\xff\xfe" + utf16, utf16, "\x00" + utf16} {
		if status, answer, _ := b.post(responses, body); status != 400 || !strings.Contains(answer, "not valid JSON") {
			t.Errorf("%q: %d %s", body, status, answer)
		}
	}
	if status, answer, _ := b.post(responses, `{"background":true}`, "Content-Encoding", "gzip"); status != 415 || !strings.Contains(answer, "compression") {
		t.Errorf("compressed: %d %s", status, answer)
	}
	c.is(t, stint.Tokens{})
	for _, body := range []string{`{"model":"m","background":false}`, `{"background":null,"metadata":{"background":"yes"},"input":"\"background\":1"}`} {
		if status, answer, _ := b.post(responses, body); status != 200 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	c.is(t, stint.Tokens{InputTokens: 2, ModelCalls: 2})
}
