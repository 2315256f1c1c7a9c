package definition_test

import (
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
		`{"framework":"shell","retries":{"max":11}}`:                                      "retries.max",
		`{"framework":"shell","retries":{"max":-1}}`:                                      "retries.max",
		`{"framework":"shell","retries":{"max":1,"on":["exit_code","bananas"]}}`:          "retries.on[1]",
		`{"framework":"shell","retries":{"max":1,"on":["cancelled_by_user"]}}`:            "retries.on[0]",
		`{"framework":"shell","retries":{"max":1,"on":[""]}}`:                             "retries.on[0]",
		`{"framework":"shell","retries":{"max":1,"from":"middle"}}`:                       "retries.from",
		`{"framework":"shell","retries":{"max":1,"backoff":{"initial":"5"}}}`:             "retries.backoff.initial",
		`{"framework":"shell","retries":{"max":1,"backoff":{"initial":"-5s"}}}`:           "retries.backoff.initial",
		`{"framework":"shell","retries":{"max":1,"backoff":{"max":"25h"}}}`:               "retries.backoff.max",
		`{"framework":"shell","retries":{"max":1,"backoff":{"initial":"2m","max":"1m"}}}`: "retries.backoff.max",
		`{"framework":"shell","retries":{"max":1,"backoff":{"factor":0.5}}}`:              "retries.backoff.factor",
		`{"framework":"shell","retries":{"max":1,"wait":"5s"}}`:                           "retries.wait",
		`{"framework":"shell","timeout":"5 minutes"}`:                                     "timeout",
		`{"framework":"shell","timeout":"1000h"}`:                                         "timeout",
		`{"framework":"command"}`:                                                         "command",
		`{"framework":"command","command":[""]}`:                                          "command[0]",
		`{"framework":"shell","volumes":{"data":{"pth":"/x"}}}`:                           "volumes.data.pth",
		`{"framework":"shell","volumes":{"data":{"path":"x"}}}`:                           "volumes.data.path",
		`{"framework":"shell","volumes":{"data":{"path":"/etc/x"}}}`:                      "volumes.data.path",
		`{"framework":"shell","volumes":{"data":{"path":"/workspace/x"}}}`:                "volumes.data.path",
		`{"framework":"shell","volumes":{"Data":{}}}`:                                     "volumes.Data",
		`{"framework":"shell","volumes":{"d-${{ secrets.X }}":{}}}`:                       "volumes.d-${{ secrets.X }}",
		`{"framework":"shell","environment":{"LD_PRELOAD":"x"}}`:                          "environment.LD_PRELOAD",
		`{"framework":"shell","resources":{"memory":"1KiB"}}`:                             "resources.memory",
		`{"framework":"shell","resources":{"cpu":-1}}`:                                    "resources.cpu",
		`{"framework":"shell","network":{"mode":"open"}}`:                                 "network.mode",
		`{"framework":"shell","sandbox":"none"}`:                                          "sandbox",
		`{"framework":"shell","name":"A B"}`:                                              "name",
		`{"framework":"shell","artifact":{"path":"/proc/x"}}`:                             "artifact.path",
		`{"framework":"shell","provider":{"apiKey":{"secret":1}}}`:                        "provider.apiKey.secret",
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
