package worker

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// model is where the agent finds its provider's model: the host's end of the
// sandbox's network, which puts the key in.
func (j *job) model() (*framework.Endpoint, error) {
	d := &j.a.Plan.Definition
	if catalog.ModelURL(d) == "" {
		return nil, nil
	}
	if j.sandbox.Network() == nil {
		return nil, stint.InvalidParam("provider", "The agent needs a model, but sandboxes of this server have no network. 'stint doctor' tells the operator why.")
	}
	e := &framework.Endpoint{Type: catalog.ProviderType(d), URL: "http://" + stint.ModelAlias, Key: placeholder("no-key")}
	if e.Type != stint.ProviderAnthropic {
		e.URL += "/v1"
	}
	if key := d.Provider.APIKey; key != nil {
		e.Key = placeholder(key.Secret)
	}
	return e, nil
}

// gateway is the model as the way out knows it; nil without one.
func (j *job) gateway() *egress.Model {
	d := &j.a.Plan.Definition
	if catalog.ModelURL(d) == "" {
		return nil
	}
	m := &egress.Model{
		Type: catalog.ProviderType(d), BaseURL: catalog.ModelURL(d),
		Count: func(answered, asked string, t stint.Tokens) { j.meter.called(answered, asked, t); j.accountLater() },
		Heard: func() { j.meter.hear(j.e.c.Now()) },
	}
	if key := d.Provider.APIKey; key != nil {
		m.Key = j.a.Secrets()[key.Secret]
	}
	return m
}

// mcpServers are those of the definition, with placeholders where secrets are
// put in on the way out.
func (j *job) mcpServers() ([]framework.MCPServer, error) {
	d, secrets := &j.a.Plan.Definition, j.a.Secrets()
	hidden := map[string]string{}
	for name := range secrets {
		hidden[name] = placeholder(name)
	}
	var out []framework.MCPServer
	for _, name := range slices.Sorted(maps.Keys(d.MCPServers)) {
		s := d.MCPServers[name]
		m := framework.MCPServer{Name: name, URL: s.URL, Command: s.Command, Headers: map[string]string{}, Env: map[string]string{}}
		for key, value := range s.Headers {
			m.Headers[key] = definition.Interpolate(value, j.a.Plan.Variables, hidden)
		}
		for key, value := range s.Env {
			m.Env[key] = definition.Interpolate(value, j.a.Plan.Variables, j.visibleSecrets(secrets))
		}
		out = append(out, m)
	}
	return out, nil
}

// headerSecrets are the secrets in headers of MCP servers, each for the host of
// its server alone.
func (j *job) headerSecrets() []policy.Secret {
	d, values := &j.a.Plan.Definition, j.a.Secrets()
	hosts := map[string][]string{}
	for _, s := range d.MCPServers {
		at, err := url.Parse(s.URL)
		if err != nil || at.Host == "" {
			continue
		}
		for _, header := range s.Headers {
			for _, ref := range definition.References(header) {
				if ref.Source == "secrets" {
					hosts[ref.Name] = append(hosts[ref.Name], hostRule(at))
				}
			}
		}
	}
	var out []policy.Secret
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if value, ok := values[name]; ok {
			slices.Sort(hosts[name])
			out = append(out, policy.Secret{Name: name, Placeholder: placeholder(name), Value: value, Hosts: slices.Compact(hosts[name])})
		}
	}
	return out
}

// hostRule is the host of a URL with its port, as lists of hosts name it.
func hostRule(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// callsBack reports whether the definition hands the agent the API itself.
func callsBack(d *stint.Definition) bool {
	for _, s := range d.MCPServers {
		if at, err := url.Parse(s.URL); err == nil && at.Hostname() == stint.APIAlias {
			return true
		}
	}
	return false
}
