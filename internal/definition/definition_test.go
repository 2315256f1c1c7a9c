package definition_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
)

func TestParseErrorsContainPath(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{`:                                    "definition",
		`[]`:                                   "definition",
		`{}`:                                   "framework",
		`{"framework":"perl"}`:                 "framework",
		`{"framework":"shell","Timeout":"1m"}`: "Timeout",
		`{"framework":"shell","timeout":5}`:    "timeout",
		`{"framework":"shell","retries":{"max":11}}`:                                             "retries.max",
		`{"framework":"shell","retries":{"max":-1}}`:                                             "retries.max",
		`{"framework":"shell","retries":{"max":1,"on":["exit_code","bananas"]}}`:                 "retries.on[1]",
		`{"framework":"shell","retries":{"max":1,"on":["cancelled_by_user"]}}`:                   "retries.on[0]",
		`{"framework":"shell","retries":{"max":1,"on":[""]}}`:                                    "retries.on[0]",
		`{"framework":"shell","retries":{"max":1,"on":"exit_code"}}`:                             "retries.on",
		`{"framework":"shell","retries":{"max":1,"on":[5]}}`:                                     "retries.on[0]",
		`{"framework":"shell","retries":{"max":1,"from":"middle"}}`:                              "retries.from",
		`{"framework":"shell","retries":{"max":1,"backoff":{"initial":"5"}}}`:                    "retries.backoff.initial",
		`{"framework":"shell","retries":{"max":1,"backoff":{"initial":"-5s"}}}`:                  "retries.backoff.initial",
		`{"framework":"shell","retries":{"max":1,"backoff":{"max":"25h"}}}`:                      "retries.backoff.max",
		`{"framework":"shell","retries":{"max":1,"backoff":{"initial":"2m","max":"1m"}}}`:        "retries.backoff.max",
		`{"framework":"shell","retries":{"max":1,"backoff":{"factor":0.5}}}`:                     "retries.backoff.factor",
		`{"framework":"shell","retries":{"max":1,"on":[]}}`:                                      "retries.on",
		`{"framework":"shell","retries":{"max":1,"on":["exit_code",5]}}`:                         "retries.on[1]",
		`{"framework":"shell","placement":{"labels":{"":"x"}}}`:                                  "placement.labels.",
		`{"framework":"shell","placement":{"labels":{"x":"` + strings.Repeat("x", 2048) + `"}}}`: "placement.labels",
		`{"framework":"shell","retries":{"max":1,"wait":"5s"}}`:                                  "retries.wait",
		`{"framework":"shell","timeout":"5 minutes"}`:                                            "timeout",
		`{"framework":"shell","timeout":"1000h"}`:                                                "timeout",
		`{"framework":"command"}`:                                                                "command",
		`{"framework":"command","command":[""]}`:                                                 "command[0]",
		`{"framework":"shell","volumes":{"data":{"pth":"/x"}}}`:                                  "volumes.data.pth",
		`{"framework":"shell","volumes":{"data":{"path":"x"}}}`:                                  "volumes.data.path",
		`{"framework":"shell","volumes":{"data":{"path":"/etc/x"}}}`:                             "volumes.data.path",
		`{"framework":"shell","volumes":{"data":{"path":"/workspace/x"}}}`:                       "volumes.data.path",
		`{"framework":"shell","volumes":{"Data":{}}}`:                                            "volumes.Data",
		`{"framework":"shell","volumes":{"d-${{ secrets.X }}":{}}}`:                              "volumes.d-${{ secrets.X }}",
		`{"framework":"shell","environment":{"LD_PRELOAD":"x"}}`:                                 "environment.LD_PRELOAD",
		`{"framework":"shell","resources":{"memory":"1KiB"}}`:                                    "resources.memory",
		`{"framework":"shell","resources":{"cpu":-1}}`:                                           "resources.cpu",
		`{"framework":"shell","network":{"mode":"open"}}`:                                        "network.mode",
		`{"framework":"shell","sandbox":"none"}`:                                                 "sandbox",
		`{"framework":"shell","name":"A B"}`:                                                     "name",
		`{"framework":"shell","artifact":{"path":"/proc/x"}}`:                                    "artifact.path",
		`{"framework":"shell","provider":{"apiKey":{"secret":1}}}`:                               "provider.apiKey.secret",
	} {
		_, err := definition.Parse([]byte(raw))
		e, ok := errors.AsType[*stint.Error](err)
		if !ok || e.Param != want || e.Kind != stint.KindInvalid {
			t.Errorf("%s: %v, want an error for %s", raw, err, want)
		}
	}
}

// The proxy can insert secrets only into TLS connections to a domain and into
// connections to the worker's loopback. Parse refuses headers with secrets for other URLs.
func TestParseRefusesUnusableHeaderSecrets(t *testing.T) {
	t.Parallel()
	const secret, plain = "Bearer ${{secrets.TOKEN }}", "${{ vars.TENANT }} keeps secrets."
	for url, c := range map[string]struct {
		value string
		fits  bool
	}{
		"https://docs.example.com/mcp":      {secret, true},
		"https://Docs.Example.com:8443/mcp": {secret, true},
		"http://host.stint.internal:9/mcp":  {secret, true},
		"https://host.stint.internal:9/mcp": {secret, true},
		"http://docs.example.com/mcp":       {secret, false},
		"http://api.stint.internal/mcp":     {secret, false},
		"https://10.0.0.1/mcp":              {secret, false},
		"https://[fd00::1]:443/mcp":         {secret, false},
		"http://127.0.0.1:9/mcp":            {secret, false},
		"http://tools.example.com/mcp":      {plain, true},
		"https://10.0.0.2/mcp":              {plain, true},
	} {
		_, err := definition.Parse([]byte(`{"framework":"assistant","mcpServers":{"docs":{"url":"` + url + `","headers":{"X-Key":"` + c.value + `"}}}}`))
		e, refused := errors.AsType[*stint.Error](err)
		if refused == c.fits || refused && (e.Param != "mcpServers.docs.headers.X-Key" || !strings.Contains(e.Message, "Change the URL")) {
			t.Errorf("%s with %s: %v", url, c.value, err)
		}
	}
}

func TestParseReportsAllErrors(t *testing.T) {
	t.Parallel()
	_, err := definition.Parse([]byte(`{"framework":"shell","timeout":"x","sandbox":"none"}`))
	if e, ok := errors.AsType[*stint.Error](err); !ok || len(e.Details) != 2 {
		t.Errorf("errors: %v", err)
	}
	_, err = definition.Parse([]byte(`{"framework":"shell","time_out":"x","Command":[]}`))
	if err == nil || !strings.Contains(err.Error(), "Did you mean 'command'?") {
		t.Errorf("unknown keys: %v", err)
	}
}

// TestParseReportsAllKindsOfErrorsAtOnce checks that the error lists unknown keys, wrong
// types, and invalid values together, and does not repeat errors that follow from others.
func TestParseReportsAllKindsOfErrorsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := definition.Parse([]byte(`{"name":"Bad_Name","framework":"shel","timout":"5m","memory":"1GiB","network":{"mode":"restrict"},
		"resources":{"memory":"2Gb","cpu":"lots"},"command":["x",5],"provider":7,"retries":{"on":"exit_code"},"environment":{"A":"${{ foo.X }}"},"permissions":{"mode":"ask"}}`))
	e, ok := errors.AsType[*stint.Error](err)
	if !ok {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range e.Details {
		got[d.Param] += d.Message
	}
	want := map[string]string{
		"name":             "'Bad_Name' is not a valid name: use 1 to 64 of a-z, 0-9 and '-', with a letter or digit at both ends.",
		"framework":        "'framework' must be one of shell, command, assistant, claude-code, codex, acp, not 'shel'. Did you mean 'shell'?",
		"timout":           "Unknown key 'timout'. Did you mean 'timeout'?",
		"memory":           "Unknown key 'memory'. Did you mean 'resources.memory'?",
		"network.mode":     "'network.mode' must be one of public, restricted, none, not 'restrict'. Did you mean 'restricted'?",
		"resources.memory": "'resources.memory' must be a size such as 512MiB or 2GiB, not '2Gb'. Did you mean '2GB'?",
		"resources.cpu":    "'resources.cpu' must be a number, not 'lots'.",
		"retries.on":       "'retries.on' must be a list of strings, not a string.",
		"command[1]":       "'command[1]' must be a string, not a number.",
		"provider":         "'provider' must be an object, not a number.",
		"environment.A":    "'environment.A' contains '${{ foo.X }}', which is not a reference. Use ${{ vars.NAME }} or ${{ secrets.NAME }}, or write '$${{' for a literal '${{'.",
		"permissions":      "'permissions' is not supported by this version of Stint: agents cannot ask for approval yet. Remove the key.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// TestParseHidesSecrets checks that an error about a value that may be a secret does not
// contain the value.
func TestParseHidesSecrets(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"framework":"shell","secrets":{"KEY":"hunter2"}}`, `{"framework":"shell","secrets":"hunter2"}`,
		`{"framework":"shell","provider":{"apiKey":"hunter2"}}`, `{"framework":"shell","environment":{"KEY":["hunter2"]}}`,
	} {
		if _, err := definition.Parse([]byte(raw)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"${{ vars.X }}${{secrets.Y}}": "", "$${{ foo.X }}": "", "$${{": "", "$${{ vars.X }} ${{ vars.Y }}": "", "${X} {{ y }} $ {{": "",
		"${{ foo.X }}": "not a reference", "${{}}": "not a reference", "${{ vars.1 }}": "not a reference", "${{ vars. X }}": "not a reference", "${{ X }}": "not a reference",
		"${{vars.}}": "not a reference", "${{ vars.A.B }}": "not a reference", "${{ vars.A || 1 }}": "not a reference", "${{ vars.É }}": "not a reference",
		"${{ var.X }}": "Did you mean '${{ vars.X }}'?", "${{ secret.X }}": "Did you mean '${{ secrets.X }}'?", "${{ variables.X }}": "Did you mean '${{ vars.X }}'?",
		"${{ vars.X": "without '}}'", "${{ vars.X ${{ vars.Y }}": "without '}}'", "a ${{": "without '}}'", "$${{ ${{": "without '}}'",
	} {
		for _, at := range []string{"environment.A", "volumes.data.version", "mcpServers.docs.headers.A"} {
			raw := map[string]any{
				"environment.A":             map[string]any{"environment": map[string]any{"A": text}},
				"volumes.data.version":      map[string]any{"volumes": map[string]any{"data": map[string]any{"version": text}}},
				"mcpServers.docs.headers.A": map[string]any{"mcpServers": map[string]any{"docs": map[string]any{"url": "https://docs.example.com", "headers": map[string]any{"A": text}}}},
			}[at].(map[string]any)
			raw["framework"] = "assistant"
			body, err := json.Marshal(raw)
			if err != nil {
				t.Fatal(err)
			}
			_, err = definition.Parse(body)
			e, refused := errors.AsType[*stint.Error](err)
			if at == "volumes.data.version" && strings.Contains(text, "secrets.") {
				continue // refused for another reason
			}
			if refused != (want != "") || refused && (e.Param != at || !strings.Contains(e.Message, want)) {
				t.Errorf("%s: %s: %v, want %q", at, text, err, want)
			}
		}
	}
}

// TestWarnings checks which keys of a valid definition have no effect, or contain a
// reference that is not replaced.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for raw, params := range map[string]string{
		`{"framework":"shell","command":["echo"],"instructions":"x","model":"y"}`:                 "command instructions model",
		`{"framework":"command","command":["echo"],"instructions":"x","model":"y"}`:               "instructions model",
		`{"framework":"assistant","instructions":"x","model":"y"}`:                                "model",
		`{"framework":"assistant","model":"y","provider":{"type":"anthropic"}}`:                   "",
		`{"framework":"claude-code","instructions":"x","model":"y"}`:                              "",
		`{"framework":"acp","command":["x"],"instructions":"x"}`:                                  "",
		`{"framework":"shell","network":{"mode":"none","allow":["example.com"]}}`:                 "network.allow",
		`{"framework":"shell","network":{"mode":"restricted"}}`:                                   "",
		`{"framework":"command","command":["${{ vars.X }}"],"environment":{"A":"${{ vars.X }}"}}`: "command[0]",
	} {
		d, err := definition.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range definition.Warnings(d) {
			got = append(got, w.Param)
		}
		if strings.Join(got, " ") != params {
			t.Errorf("%s: warnings for %q, want %q", raw, got, params)
		}
	}
}

func TestRunDefinition(t *testing.T) {
	t.Parallel()
	for raw, param := range map[string]string{
		`{"framework":"assistant","model":"a","provider":{"type":"anthropic"}}`: "",
		`{"framework":"claude-code"}`:                                           "",
		`{"framework":"assistant","model":"a","provider":{"type":"anthropic","prices":{"*":{"input":1}}},"limits":{"maxCostUsd":1}}`: "",
		`{"framework":"assistant","model":"a","provider":{"type":"anthropic","prices":{"a":{"input":1}}},"limits":{"maxCostUsd":1}}`: "model",
		`{"framework":"assistant"}`: "model",
		`{"framework":"shell"}`:     "model",
	} {
		d, err := definition.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		run, err := definition.RunDefinition(&stint.NewRun{Model: "b"}, d)
		if e, refused := errors.AsType[*stint.Error](err); refused != (param != "") || refused && e.Param != param || !refused && run.Model != "b" {
			t.Errorf("%s: %q, %v", raw, run.Model, err)
		}
		if run, err := definition.RunDefinition(new(stint.NewRun), d); err != nil || run.Model != d.Model {
			t.Errorf("%s without a model: %q, %v", raw, run.Model, err)
		}
	}
}

func TestInterpolate(t *testing.T) {
	t.Parallel()
	vars, secrets := map[string]string{"X": "x", "L": "${{ vars.X }}"}, map[string]string{"S": "s"}
	for text, want := range map[string]string{
		"a ${{ vars.X }}${{secrets.S}} b": "a xs b", "${{ vars.NONE }}": "", "$${{ vars.X }}": "${{ vars.X }}", "$${{ vars.X }} ${{ vars.X }}": "${{ vars.X }} x",
		"${{ vars.L }}": "${{ vars.X }}", "${{ foo.X }}": "${{ foo.X }}", "$$": "$$",
	} {
		if got := definition.Interpolate(text, vars, secrets); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestParseRemovedSandboxes checks that definitions with a removed sandbox can be
// parsed, and that error messages do not suggest it.
func TestParseRemovedSandboxes(t *testing.T) {
	t.Parallel()
	d, err := definition.Parse([]byte(`{"framework":"shell","sandbox":"docker"}`))
	if err != nil || d.Sandbox != "docker" {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = definition.Parse([]byte(`{"framework":"shell","sandbox":"none"}`))
	if err == nil || strings.Contains(err.Error(), "docker") || !strings.Contains(err.Error(), "default, namespace, gvisor") {
		t.Errorf("an unknown sandbox: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	d, err := definition.Parse([]byte(`{"framework":"shell"}`))
	if err != nil || definition.Timeout(d) != 2*time.Hour || d.ArtifactPath() != "/workspace" {
		t.Errorf("%+v, %v", d, err)
	}
	d, err = definition.Parse([]byte(`{"framework":"shell","timeout":"90s","artifact":{"path":"/work/out"},"resources":{"cpu":0.5,"memory":"512MiB","pids":64},"limits":{"outputBytes":1048576}}`))
	if err != nil || definition.Timeout(d) != 90*time.Second || d.ArtifactPath() != "/work/out" || d.Resources.Memory != 512<<20 || d.Limits.OutputBytes != 1<<20 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAllReferences(t *testing.T) {
	t.Parallel()
	d, err := definition.Parse([]byte(`{"framework":"assistant",
		"environment":{"B":"${{ vars.X }} and ${{secrets.Y}}","A":"${{ vars.W }}"},
		"volumes":{"data-${{ vars.X }}":{"version":"${{ vars.V }}"}},
		"mcpServers":{"docs":{"url":"https://docs.example.com","headers":{"X-Key":"${{ secrets.Y }}${{ secrets.H }}"}}},
		"secrets":{"BROKERED":{"hosts":["api.example.com"]}},
		"provider":{"type":"anthropic","apiKey":{"secret":"KEY"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []definition.Reference{
		{Source: "vars", Name: "W"},
		{Source: "vars", Name: "X"},
		{Source: "secrets", Name: "Y"},
		{Source: "vars", Name: "V"},
		{Source: "secrets", Name: "H"},
		{Source: "secrets", Name: "BROKERED"},
		{Source: "secrets", Name: "KEY"},
	}
	if diff := cmp.Diff(want, definition.AllReferences(d)); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

func TestCanonicalJSONIgnoresKeyOrder(t *testing.T) {
	t.Parallel()
	a, errA := definition.CanonicalJSON([]byte(`{"b":1.50,"a":{"y":[1,2],"x":"<é>"}}`))
	b, errB := definition.CanonicalJSON([]byte(" {\n\"a\":{\"x\":\"<\\u00e9>\",\"y\":[1,2]},\"b\":1.50}"))
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%s, %v and %s, %v", a, errA, b, errB)
	}
}

// FuzzParse checks that Parse returns a valid definition or an error of type *stint.Error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"framework":"shell","volumes":{"a":{"path":"/x"}},"timeout":"5s"}`))
	f.Add([]byte(`{"framework":"command","command":["x"],"resources":{"memory":"2GiB"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := definition.Parse(raw)
		if err == nil {
			if d.Framework == "" || definition.Timeout(d) < time.Second {
				t.Errorf("%s is accepted as %+v", raw, d)
			}
			return
		}
		if _, ok := errors.AsType[*stint.Error](err); !ok {
			t.Errorf("%s: error of type %T: %v", raw, err, err)
		}
	})
}
