package definition

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// SecretNames returns the names of the secrets that a definition names, sorted.
func SecretNames(d *stint.Definition) []string {
	var names []string
	for _, r := range AllReferences(d) {
		if r.Source == FromSecrets {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// InsertedSecrets returns the names of the secrets that no sandbox contains, because they
// are inserted outside: brokered ones, the model's key, and those in headers of MCP
// servers.
func InsertedSecrets(d *stint.Definition) []string {
	var names []string
	for name, use := range d.Secrets {
		if len(use.Hosts) > 0 {
			names = append(names, name)
		}
	}
	if catalog.ModelURL(d) != "" && d.Provider.APIKey != nil {
		names = append(names, d.Provider.APIKey.Secret)
	}
	for _, m := range d.MCPServers {
		names = append(names, HeaderSecrets(m)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// HeaderSecrets returns the names of the secrets in the headers of an MCP server.
func HeaderSecrets(m stint.MCPServer) (names []string) {
	for _, r := range References(sortedValues(m.Headers)...) {
		if r.Source == FromSecrets {
			names = append(names, r.Name)
		}
	}
	return names
}

// ReadsSecret reports whether the agent can read the value of a secret that the
// definition names, unless the stored secret has hosts.
func ReadsSecret(d *stint.Definition, name string) bool {
	return slices.Contains(SecretNames(d), name) && !slices.Contains(InsertedSecrets(d), name)
}

// HostRule returns the host and port of a URL as an egress rule.
func HostRule(u *url.URL) string {
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// secretPlace is a place of a definition that limits a secret to hosts.
type secretPlace struct {
	param string
	hosts []string
}

// placesOf returns the places that limit a secret to hosts.
func placesOf(d *stint.Definition, name string) []secretPlace {
	var places []secretPlace
	if use := d.Secrets[name]; len(use.Hosts) > 0 {
		places = append(places, secretPlace{"secrets." + name + ".hosts", use.Hosts})
	}
	at := func(param, address string) {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			places = append(places, secretPlace{param, []string{HostRule(u)}})
		}
	}
	if base := catalog.ModelURL(d); base != "" && d.Provider.APIKey != nil && d.Provider.APIKey.Secret == name {
		at("provider.apiKey.secret", base)
	}
	for _, server := range slices.Sorted(maps.Keys(d.MCPServers)) {
		m := d.MCPServers[server]
		for _, key := range slices.Sorted(maps.Keys(m.Headers)) {
			if slices.Contains(References(m.Headers[key]), Reference{FromSecrets, name}) {
				at("mcpServers."+server+".headers."+key, m.URL)
			}
		}
	}
	return places
}

// namedWithoutHosts reports whether a definition names a secret in a place that does not
// limit it to hosts, and not under 'secrets' with hosts.
func namedWithoutHosts(d *stint.Definition, name string) bool {
	use, listed := d.Secrets[name]
	if listed {
		return len(use.Hosts) == 0
	}
	texts := sortedValues(d.Environment)
	for _, m := range d.MCPServers {
		texts = append(texts, sortedValues(m.Env)...)
	}
	return slices.Contains(References(texts...), Reference{FromSecrets, name}) || ReadsSecret(d, name)
}

// RestrictSecret limits the uses of a stored secret to the hosts of the secret. It sets
// d.Secrets so that the agent cannot read the secret and that its hosts are those that
// both the definition and the secret allow. It returns an error for each use that has no
// such host. d.Secrets is replaced, not modified.
func RestrictSecret(d *stint.Definition, name string, hosts []string) error {
	allowed := rulesOf(hosts)
	var errs errorList
	for _, place := range placesOf(d, name) {
		both := policy.Intersect(rulesOf(place.hosts), allowed)
		if len(both) == 0 {
			errs.invalid(place.param, "The stored secret '%s' may be sent only to %s, which '%s' (%s) does not include. Change the hosts of the definition, or those of the secret with 'stint secret set'.",
				name, strings.Join(hosts, ", "), place.param, strings.Join(place.hosts, ", "))
			continue
		}
		if place.param == "secrets."+name+".hosts" {
			setSecretHosts(d, name, both)
		}
	}
	if namedWithoutHosts(d, name) {
		setSecretHosts(d, name, allowed)
	}
	return stint.JoinErrors(errs...)
}

func setSecretHosts(d *stint.Definition, name string, rules []policy.Rule) {
	all := maps.Clone(d.Secrets)
	if all == nil {
		all = map[string]stint.SecretUse{}
	}
	var hosts []string
	for _, r := range rules {
		hosts = append(hosts, r.String())
	}
	all[name] = stint.SecretUse{Hosts: hosts}
	d.Secrets = all
}

// ExtendsSecret reports whether a new definition uses a secret in a way that the previous
// one does not: it names the secret first, makes it readable, or sends it to more hosts.
// previous may be nil.
func ExtendsSecret(d, previous *stint.Definition, name string) bool {
	if previous == nil || !slices.Contains(SecretNames(previous), name) || ReadsSecret(d, name) && !ReadsSecret(previous, name) {
		return true
	}
	if ReadsSecret(previous, name) {
		return false // the agent could send it anywhere
	}
	before := hostsOf(previous, name)
	rules := rulesOf(before)
	return slices.ContainsFunc(hostsOf(d, name), func(host string) bool {
		r, err := policy.ParseRule(host)
		return !slices.Contains(before, host) && (err != nil || !policy.Covers(rules, r))
	})
}

// rulesOf parses rules. It omits hosts that no rule can name, such as localhost.
func rulesOf(hosts []string) (rules []policy.Rule) {
	for _, host := range hosts {
		if r, err := policy.ParseRule(host); err == nil {
			rules = append(rules, r)
		}
	}
	return rules
}

// hostsOf returns the hosts that the definition sends a secret to.
func hostsOf(d *stint.Definition, name string) (hosts []string) {
	for _, place := range placesOf(d, name) {
		hosts = append(hosts, place.hosts...)
	}
	return hosts
}

// SecretParam returns the path of a place of the definition that names the secret.
func SecretParam(d *stint.Definition, name string) string {
	wanted := Reference{FromSecrets, name}
	if _, ok := d.Secrets[name]; ok {
		return "secrets." + name
	}
	if d.Provider != nil && d.Provider.APIKey != nil && d.Provider.APIKey.Secret == name {
		return "provider.apiKey.secret"
	}
	for _, key := range slices.Sorted(maps.Keys(d.Environment)) {
		if slices.Contains(References(d.Environment[key]), wanted) {
			return "environment." + key
		}
	}
	return "mcpServers"
}
