package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// demoModel is the model of the demo's assistant. Without a URL the assistant
// works offline.
type demoModel struct {
	url, name, kind string
	key             string
}

// demoKey is the name of the run's secret that contains the model's key.
const demoKey = "MODEL_KEY"

// demoProviders contains the default model and API of known providers, by host.
var demoProviders = map[string]demoModel{
	"api.anthropic.com": {name: "claude-sonnet-5", kind: stint.ProviderAnthropic},
	"api.openai.com":    {name: "gpt-5", kind: stint.ProviderResponses},
}

var modelTypes = []string{stint.ProviderAnthropic, stint.ProviderResponses, stint.ProviderChat}

func (m *demoModel) flags(c *cobra.Command) {
	c.Flags().StringVar(&m.url, "model-url", "", "let the assistant use the model at this URL, such as "+catalog.AnthropicURL)
	c.Flags().StringVar(&m.name, "model", "", "name of the model")
	c.Flags().StringVar(&m.kind, "model-type", "", "API at the URL: "+strings.Join(modelTypes, ", ")+" (default: derived from the URL)")
}

// complete checks the flags, sets defaults, and reads the key. Without a URL there
// are no defaults and no key.
func (m *demoModel) complete(a *app, c *cobra.Command) error {
	if m.url == "" {
		if m.name != "" || m.kind != "" {
			return usage(c, "--model and --model-type belong to --model-url")
		}
		return nil
	}
	at, err := url.Parse(strings.TrimRight(m.url, "/"))
	if err != nil || at.Hostname() == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return usage(c, "--model-url is not a URL such as %s or http://127.0.0.1:11434/v1", catalog.AnthropicURL)
	}
	known := demoProviders[at.Hostname()]
	if m.kind == "" {
		if m.kind = cmp.Or(known.kind, stint.ProviderAnthropic); strings.HasSuffix(at.Path, "/v1") && m.kind == stint.ProviderAnthropic {
			m.kind = stint.ProviderChat
		}
	}
	if !slices.Contains(modelTypes, m.kind) {
		return usage(c, "--model-type is one of %s", strings.Join(modelTypes, ", "))
	}
	if m.kind != stint.ProviderAnthropic && at.Path == "" {
		at.Path = "/v1"
	}
	m.url = at.String()
	if m.name = cmp.Or(m.name, known.name); m.name == "" {
		return usage(c, "name the model of %s with --model", at.Host)
	}
	return m.readKey(c.Context(), a, at, known.name != "")
}

// readKey reads the key from the environment or the terminal. If required is set and
// there is no key, it returns an error.
func (m *demoModel) readKey(ctx context.Context, a *app, at *url.URL, required bool) error {
	own := "OPENAI_API_KEY"
	if m.kind == stint.ProviderAnthropic {
		own = "ANTHROPIC_API_KEY"
	}
	if m.key = cmp.Or(a.getenv("STINT_MODEL_KEY"), a.getenv(own)); m.key != "" {
		return nil
	}
	if a.IsTerminal(stdin) {
		key, err := a.readHidden(ctx, "Key for %s (not shown, Enter for none): ", at.Host)
		if err != nil {
			return err
		}
		m.key = strings.TrimSpace(key)
	}
	if m.key == "" && required {
		return fmt.Errorf("%s needs a key: set %s, or STINT_MODEL_KEY", at.Hostname(), own)
	}
	return nil
}

// configure changes the definition in a file so that it uses the model. If the host
// of the model is not in demoProviders, the definition permits traffic to this host
// only. If the model is on this machine, the definition gets the host name that
// stands for the worker's loopback interface inside sandboxes.
func (m *demoModel) configure(file string) error {
	source, err := readDefinition(file)
	if err != nil {
		return err
	}
	definition := source.members
	at, err := url.Parse(m.url)
	if err != nil {
		return fmt.Errorf("read the model's URL: %w", err)
	}
	host, port := at.Hostname(), cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])
	if isLocal(m.url) {
		host = stint.HostAlias
		at.Host = net.JoinHostPort(host, port)
	}
	provider := map[string]any{"type": m.kind, "baseUrl": at.String()}
	if m.key != "" {
		provider["apiKey"] = map[string]any{"secret": demoKey}
	}
	definition["provider"], definition["model"] = provider, m.name
	if demoProviders[host].name == "" {
		definition["network"] = map[string]any{"mode": "restricted", "allow": []any{net.JoinHostPort(host, port)}}
	}
	content, err := json.Marshal(definition)
	if err != nil {
		return fmt.Errorf("write the definition: %w", err)
	}
	return os.WriteFile(file, content, 0o600)
}
