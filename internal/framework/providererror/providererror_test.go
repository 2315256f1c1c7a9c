package providererror_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/providererror"
)

func TestFailure(t *testing.T) {
	t.Parallel()
	full := &stint.Definition{Model: "m-1", Provider: &stint.Provider{APIKey: &stint.SecretRef{Secret: "MODEL_KEY"}}}
	for _, tt := range []struct {
		d      *stint.Definition
		status int
		text   string
		want   []string
	}{
		{full, 401, "no", []string{"(401)", "Check the value of the secret MODEL_KEY", "said: no."}},
		{full, 0, "unexpected status 403 Forbidden", []string{"(403)", "MODEL_KEY"}},
		{&stint.Definition{}, 0, "API Error: 401 x", []string{"give the run the secret THE_KEY"}},
		{&stint.Definition{Provider: &stint.Provider{}}, 401, "", []string{"'provider.apiKey'", "said: nothing."}},
		{&stint.Definition{}, 0, "Not logged in · Please run /login", []string{"has no key for its model", "THE_KEY"}},
		{full, 404, "", []string{"(404), the model 'm-1'"}},
		{&stint.Definition{}, 0, "The model `x` does not exist", []string{"(404). Check 'model'"}},
		{full, 0, "exceeded retry limit, last status: 429 Too Many Requests", []string{"(429)", "Try again later"}},
		{full, 529, "", []string{"overloaded (529)"}},
		{full, 0, `{"error":{"message":"Too long."}}`, []string{"It said: Too long."}},
		{full, 400, `{"error":{"message":"Too long."}}`, []string{"(400)", "said: Too long."}},
		{full, 0, "Unable to connect to API (ConnectionRefused)", []string{"could not reach its model", "'provider.baseUrl'"}},
		{full, 0, "We are experiencing high demand", []string{"overloaded. Try"}},
		{full, 0, strings.Repeat("é", 1000), []string{"It said: é", "é…."}},
	} {
		got := providererror.Failure(&framework.Input{Definition: tt.d}, "THE_KEY", tt.status, tt.text)
		for _, part := range tt.want {
			if !strings.Contains(got, part) {
				t.Errorf("%d %.40q gives %q without %q", tt.status, tt.text, got, part)
			}
		}
	}
}

// Texts are masked before they are cut, because a part of a secret cannot be
// recognised.
func TestSecretsAreMaskedBeforeCut(t *testing.T) {
	t.Parallel()
	const hidden = "hunter two\nhunter"
	in := &framework.Input{
		Definition: &stint.Definition{},
		Mask:       func(text string) string { return strings.ReplaceAll(text, hidden, "***") },
	}
	said, err := json.Marshal(map[string]any{"error": map[string]string{"message": strings.Repeat("a", 295) + hidden}})
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{0, 400} {
		got := providererror.Failure(in, "THE_KEY", status, string(said))
		if strings.Contains(got, "hunt") || !strings.Contains(got, "aaa***") {
			t.Errorf("%d: %q", status, got)
		}
	}
}
