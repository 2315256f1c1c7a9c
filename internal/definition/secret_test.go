package definition_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
)

func parse(t *testing.T, raw string) *stint.Definition {
	t.Helper()
	d, err := definition.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return d
}

// The definitions of the tests below. Each uses the secret KEY in one way.
const (
	asVariable  = `{"framework":"shell","secrets":{"KEY":{}}}`
	asNull      = `{"framework":"shell","secrets":{"KEY":null}}`
	inText      = `{"framework":"shell","environment":{"A":"x ${{ secrets.KEY }}"}}`
	brokered    = `{"framework":"shell","environment":{"A":"${{ secrets.KEY }}"},"secrets":{"KEY":{"hosts":["*.example.com","b.test:443"]}}}`
	asModelKey  = `{"framework":"assistant","provider":{"type":"anthropic","baseUrl":"https://model.example.com/v1","apiKey":{"secret":"KEY"}}}`
	offlineKey  = `{"framework":"assistant","provider":{"type":"offline","apiKey":{"secret":"KEY"}}}`
	inHeader    = `{"framework":"assistant","mcpServers":{"docs":{"url":"https://docs.example.com:8443/mcp","headers":{"X-Key":"${{ secrets.KEY }}"}}}}`
	inToolsEnv  = `{"framework":"assistant","mcpServers":{"docs":{"command":["docs"],"env":{"KEY":"${{ secrets.KEY }}"}}}}`
	withoutKeys = `{"framework":"shell"}`
)

func TestReadsSecret(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		asVariable: true, asNull: true, inText: true, brokered: false, asModelKey: false, offlineKey: true, inHeader: false, inToolsEnv: true, withoutKeys: false,
	} {
		if got := definition.ReadsSecret(parse(t, raw), "KEY"); got != want {
			t.Errorf("%s reads the secret: %v", raw, got)
		}
	}
}

// TestRestrictSecret checks that the agent of a restricted definition cannot read the
// secret, and which hosts receive it.
func TestRestrictSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, hosts string
		want       string // the hosts under secrets.KEY, or the path of the error
	}{
		{asVariable, "api.example.com *.b.test", "api.example.com *.b.test"},
		{inText, "api.example.com", "api.example.com"},
		{inToolsEnv, "api.example.com", "api.example.com"},
		{offlineKey, "api.example.com", "api.example.com"},
		{brokered, "api.example.com", "api.example.com"},
		{brokered, "*.com b.test", "*.example.com b.test:443"},
		{brokered, "example.com", "error: secrets.KEY.hosts"},
		{brokered, "b.test:80", "error: secrets.KEY.hosts"},
		{asModelKey, "model.example.com", ""},
		{asModelKey, "*.example.com:443", ""},
		{asModelKey, "api.anthropic.com", "error: provider.apiKey.secret"},
		{inHeader, "*.example.com", ""},
		{inHeader, "docs.example.com:443", "error: mcpServers.docs.headers.X-Key"},
	} {
		d := parse(t, c.raw)
		before := *d
		err := definition.RestrictSecret(d, "KEY", strings.Fields(c.hosts))
		got := strings.Join(d.Secrets["KEY"].Hosts, " ")
		if e, ok := errors.AsType[*stint.Error](err); ok {
			got = "error: " + e.Param
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s limited to %s (-want +got):\n%s", c.raw, c.hosts, diff)
		}
		if err == nil && definition.ReadsSecret(d, "KEY") {
			t.Errorf("%s limited to %s reads the secret", c.raw, c.hosts)
		}
		if original := parse(t, c.raw); cmp.Diff(original.Secrets, before.Secrets) != "" {
			t.Errorf("%s: the secrets of the given definition were modified: %v", c.raw, before.Secrets)
		}
	}
}

func TestExtendsSecret(t *testing.T) {
	t.Parallel()
	elsewhere := strings.Replace(asModelKey, "model.example.com", "evil.test", 1)
	moreHosts := strings.Replace(brokered, "b.test:443", "b.test", 1)
	fewerHosts := strings.Replace(brokered, "*.example.com", "api.example.com", 1)
	for _, c := range []struct {
		previous, next string
		want           bool
	}{
		{"", asVariable, true},
		{withoutKeys, asModelKey, true},
		{asVariable, inText, false},
		{asVariable, elsewhere, false},
		{asModelKey, asModelKey, false},
		{asModelKey, asVariable, true},
		{asModelKey, elsewhere, true},
		{asModelKey, inHeader, true},
		{brokered, fewerHosts, false},
		{brokered, moreHosts, true},
		{brokered, asModelKey, false},
		{brokered, inText, true},
	} {
		var previous *stint.Definition
		if c.previous != "" {
			previous = parse(t, c.previous)
		}
		if got := definition.ExtendsSecret(parse(t, c.next), previous, "KEY"); got != c.want {
			t.Errorf("from %s to %s: %v", c.previous, c.next, got)
		}
	}
}

func TestParseChecksSecrets(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"framework":"shell","secrets":{"KEY":{"hosts":[]}}}`:             "secrets.KEY.hosts",
		`{"framework":"shell","secrets":{"KEY":{"hosts":["10.0.0.1"]}}}`:   "secrets.KEY.hosts[0]",
		`{"framework":"shell","secrets":{"LD_PRELOAD":{}}}`:                "secrets.LD_PRELOAD",
		`{"framework":"shell","secrets":{"no name":{"hosts":["a.test"]}}}`: "secrets.no name",
		`{"framework":"shell","secrets":{"KEY":{"host":["api.test"]}}}`:    "secrets.KEY.host",
		`{"framework":"shell","secrets":{"KEY":["api.example.com"]}}`:      "secrets.KEY",
	} {
		_, err := definition.Parse([]byte(raw))
		if e, ok := errors.AsType[*stint.Error](err); !ok || e.Param != want {
			t.Errorf("%s: %v, want an error for %s", raw, err, want)
		}
	}
}
