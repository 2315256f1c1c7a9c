package run

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/egress/policy"
)

// placeholder returns the text that stands in the sandbox for a secret that is inserted
// outside the sandbox.
func placeholder(name string) string { return "stint-brokered-" + name }

// brokeredSecrets returns the brokered secrets of the definition. The egress proxy inserts
// each of them only in requests to its hosts.
func (s *state) brokeredSecrets() []policy.Secret {
	hosts := map[string][]string{}
	for name, use := range s.definition().Secrets {
		if len(use.Hosts) > 0 {
			hosts[name] = use.Hosts
		}
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
		for _, name := range definition.HeaderSecrets(m) {
			hosts[name] = append(hosts[name], definition.HostRule(at))
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

// visibleSecrets returns the secrets as the agent sees them: secrets that are inserted
// outside the sandbox are replaced by placeholders.
func (s *state) visibleSecrets(secrets map[string]string) map[string]string {
	visible := maps.Clone(secrets)
	for _, name := range definition.InsertedSecrets(s.definition()) {
		if _, ok := visible[name]; ok {
			visible[name] = placeholder(name)
		}
	}
	return visible
}

// warnOfUnnamedSecrets logs which secrets the run does not receive any more, because the
// agent's definition does not name them and an earlier release did not require it.
func (s *state) warnOfUnnamedSecrets() {
	if names := s.a.Unnamed; len(names) > 0 {
		s.output.System("warn", fmt.Sprintf("This run does not receive the stored secrets %s, because the agent's definition does not name them. If the agent needs them, name them under 'secrets' and push it; 'stint secret check' shows how. This entry ends with the agent's next version.",
			strings.Join(names, ", ")), map[string]any{"secrets": names})
	}
}
