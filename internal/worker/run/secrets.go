package run

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// placeholder returns the text that stands in the sandbox for a secret that is inserted
// outside the sandbox.
func placeholder(name string) string { return "stint-brokered-" + name }

// brokeredSecrets returns the brokered secrets of the definition. The egress proxy inserts
// each of them only in requests to its hosts.
func (s *state) brokeredSecrets() []policy.Secret {
	hosts := map[string][]string{}
	for name, secret := range s.definition().Secrets {
		hosts[name] = secret.Hosts
	}
	return s.proxySecrets(hosts)
}

// headerSecrets returns the secrets in headers of MCP servers. The egress proxy inserts
// each of them only in requests to its server's host.
func (s *state) headerSecrets() []policy.Secret {
	hosts := map[string][]string{}
	for _, m := range s.definition().MCPServers {
		at, err := url.Parse(m.URL)
		if err != nil || at.Host == "" {
			continue
		}
		for _, name := range secretsOfHeaders(m) {
			hosts[name] = append(hosts[name], hostRule(at))
		}
	}
	for name := range hosts {
		slices.Sort(hosts[name])
		hosts[name] = slices.Compact(hosts[name])
	}
	return s.proxySecrets(hosts)
}

// proxySecrets returns the secrets with the given names that have a value. hosts
// contains, by name of a secret, the hosts that may receive it.
func (s *state) proxySecrets(hosts map[string][]string) (out []policy.Secret) {
	values := s.a.Secrets()
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if value, ok := values[name]; ok {
			out = append(out, policy.Secret{Name: name, Placeholder: placeholder(name), Value: value, Hosts: hosts[name]})
		}
	}
	return out
}

func secretsOfHeaders(m stint.MCPServer) (names []string) {
	for _, header := range m.Headers {
		for _, ref := range definition.References(header) {
			if ref.Source == "secrets" {
				names = append(names, ref.Name)
			}
		}
	}
	return names
}

// hostRule returns the host and port of a URL as an egress rule.
func hostRule(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// visibleSecrets returns the secrets as the agent sees them: secrets that are inserted
// outside the sandbox are replaced by placeholders.
func (s *state) visibleSecrets(secrets map[string]string) map[string]string {
	visible := maps.Clone(secrets)
	for _, name := range insertedSecrets(s.definition()) {
		if _, ok := visible[name]; ok {
			visible[name] = placeholder(name)
		}
	}
	return visible
}

// insertedSecrets returns the names of the secrets that no sandbox contains:
// brokered ones, the model's key, and those in headers of MCP servers.
func insertedSecrets(d *stint.Definition) []string {
	names := slices.Collect(maps.Keys(d.Secrets))
	if catalog.ModelURL(d) != "" && d.Provider.APIKey != nil {
		names = append(names, d.Provider.APIKey.Secret)
	}
	for _, m := range d.MCPServers {
		names = append(names, secretsOfHeaders(m)...)
	}
	return names
}
