package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

// TestDemoWithModel runs the demonstration with a local model server, and checks that
// the output does not contain the key of the model.
func TestDemoWithModel(t *testing.T) {
	t.Parallel()
	const key = "a-key-of-the-demonstration"
	model := modeltest.StartWith(t, modeltest.Options{Key: key, Models: []string{"mock-1"}})
	for name, c := range map[string]struct {
		args    []string
		keyName string
		dialect string
	}{
		"Anthropic by URL":   {[]string{"--model-url", model.URL + "/"}, "ANTHROPIC_API_KEY", modeltest.Anthropic},
		"completions by URL": {[]string{"--model-url", strings.Replace(model.URL, "127.0.0.1", "localhost", 1) + "/v1"}, "STINT_MODEL_KEY", modeltest.Chat},
		"responses by name":  {[]string{"--model-url", model.URL, "--model-type", "openai-responses"}, "OPENAI_API_KEY", modeltest.Responses},
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "stint"), append([]string{"demo", "--model", "mock-1"}, c.args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+temp, "HOME="+temp, "ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "STINT_MODEL_KEY=", c.keyName+"="+key)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			for _, want := range []string{"7. Let the built-in assistant ask mock-1", "Hello. user_turns=1", "Wrote 0 files, 0 B,", "tokens in"} {
				if !bytes.Contains(out, []byte(want)) {
					t.Errorf("the demonstration does not show %q:\n%s", want, out)
				}
			}
			if bytes.Contains(out, []byte(key)) {
				t.Errorf("the key is shown:\n%s", out)
			}
			requests := model.Requests()
			if last := requests[len(requests)-1]; last.Dialect != c.dialect || last.Key != key {
				t.Errorf("the last model call has the dialect %s", last.Dialect)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}
