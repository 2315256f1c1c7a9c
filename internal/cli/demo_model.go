package cli

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// demoModel is the model that the demonstration's assistant asks; without a URL
// it works offline.
type demoModel struct {
	url, name, kind string
	key             string
}

// demoKey is the name of the secret that a run is given with the model's key.
const demoKey = "MODEL_KEY"

// Hosts of providers that are known by their name.
const (
	anthropicHost = "api.anthropic.com"
	openAIHost    = "api.openai.com"
)

func (m *demoModel) flags(c *cobra.Command) {
	c.Flags().StringVar(&m.url, "model-url", "", "let the assistant ask a model there, such as "+catalog.AnthropicURL)
	c.Flags().StringVar(&m.name, "model", "", "name of the model")
	c.Flags().StringVar(&m.kind, "model-type", "", "what the URL speaks: "+strings.Join(modelTypes, ", ")+" (default: guessed from the URL)")
}

var modelTypes = []string{stint.ProviderAnthropic, stint.ProviderResponses, stint.ProviderChat}

// complete fills in what was not said, and asks a person for the key.
func (m *demoModel) complete(a *app, c *cobra.Command) error {
	if m.url == "" {
		if m.name != "" || m.kind != "" {
			return usage(c, "--model and --model-type belong to --model-url")
		}
		return nil
	}
	at, err := url.Parse(strings.TrimRight(m.url, "/"))
	if err != nil || at.Hostname() == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return usage(c, "--model-url is no URL such as %s or http://127.0.0.1:11434/v1", catalog.AnthropicURL)
	}
	if m.kind == "" {
		m.kind = guessType(at)
	}
	if !slices.Contains(modelTypes, m.kind) {
		return usage(c, "--model-type is one of %s", strings.Join(modelTypes, ", "))
	}
	if m.kind != stint.ProviderAnthropic && at.Path == "" {
		at.Path = "/v1"
	}
	m.url = at.String()
	if m.name == "" {
		if m.name = map[string]string{anthropicHost: "claude-sonnet-5", openAIHost: "gpt-5"}[at.Hostname()]; m.name == "" {
			return usage(c, "say with --model which model of %s it is", at.Host)
		}
	}
	return m.findKey(a, at)
}

// guessType tells a dialect from where it is spoken.
func guessType(at *url.URL) string {
	switch {
	case at.Hostname() == openAIHost:
		return stint.ProviderResponses
	case strings.HasSuffix(at.Path, "/v1"):
		return stint.ProviderChat
	}
	return stint.ProviderAnthropic
}

// findKey takes the key from the environment, or asks for it. Servers of one's
// own often need none.
func (m *demoModel) findKey(a *app, at *url.URL) error {
	own := "OPENAI_API_KEY"
	if m.kind == stint.ProviderAnthropic {
		own = "ANTHROPIC_API_KEY"
	}
	for _, name := range []string{"STINT_MODEL_KEY", own} {
		if m.key = a.getenv(name); m.key != "" {
			return nil
		}
	}
	if a.IsTerminal(stdin) {
		fmt.Fprintf(a.Stderr, "Key for %s (not shown, Enter for none): ", at.Host)
		key, err := a.ReadPassword()
		fmt.Fprintln(a.Stderr)
		if err != nil {
			return fmt.Errorf("read the key: %w", err)
		}
		m.key = strings.TrimSpace(string(key))
	}
	if host := at.Hostname(); m.key == "" && (host == anthropicHost || host == openAIHost) {
		return fmt.Errorf("%s needs a key: set %s, or STINT_MODEL_KEY", host, own)
	}
	return nil
}

// give puts the model into a definition. A model on this machine is reached by
// the name that the worker's own loopback has in sandboxes.
func (m *demoModel) give(definition map[string]any) {
	if m.url == "" {
		return
	}
	at, _ := url.Parse(m.url) // complete has read it
	port := at.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[at.Scheme]
	}
	host := at.Hostname()
	if isLoopback(host) {
		host = stint.HostAlias
		at.Host = net.JoinHostPort(host, port)
	}
	provider := map[string]any{"type": m.kind, "baseUrl": at.String()}
	if m.key != "" {
		provider["apiKey"] = map[string]any{"secret": demoKey}
	}
	definition["provider"], definition["model"] = provider, m.name
	if host != anthropicHost && host != openAIHost {
		definition["network"] = map[string]any{"mode": "restricted", "allow": []any{net.JoinHostPort(host, port)}}
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
