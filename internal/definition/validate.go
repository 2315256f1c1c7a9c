package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/spelling"
)

var (
	networkModes = []string{"public", "restricted", "none"}
	sandboxes    = []string{"default", "namespace", "gvisor"}
	// removedSandboxes contains isolators of earlier releases. Parse accepts them
	// without suggesting them. A run with such a definition fails, because the
	// server does not have the isolator.
	removedSandboxes = []string{"docker", "kubernetes"}
)

// errorList collects validation errors.
type errorList []*stint.Error

// add appends e unless it is nil.
func (l *errorList) add(e *stint.Error) {
	if e != nil {
		*l = append(*l, e)
	}
}

// invalid appends an error for the value of param.
func (l *errorList) invalid(param, format string, args ...any) {
	l.add(stint.InvalidParam(param, format, args...))
}

// validate returns an error for each invalid value of d.
func validate(d *stint.Definition) errorList {
	var errs errorList
	if d.Name != "" {
		errs.add(stint.CheckName("name", d.Name))
	}
	errs.framework(d)
	if !slices.Contains(removedSandboxes, d.Sandbox) {
		errs.oneOf("sandbox", d.Sandbox, sandboxes)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Environment)) {
		errs.add(stint.CheckVariable("environment."+name, name))
	}
	errs.references(d)
	errs.mounts(d)
	errs.network(d)
	errs.secrets(d)
	errs.provider(d)
	for _, name := range slices.Sorted(maps.Keys(d.MCPServers)) {
		errs.mcpServer(name, d.MCPServers[name])
	}
	errs.resources(d.Resources)
	errs.add(checkTimeout("timeout", d.Timeout))
	errs.add(checkLimits("limits", d.Limits))
	errs.retries(d.Retries)
	errs.placement(d.Placement)
	return errs
}

// oneOf appends an error if value is neither empty nor one of the allowed values.
func (l *errorList) oneOf(param, value string, allowed []string) {
	if value != "" && !slices.Contains(allowed, value) {
		l.invalid(param, "'%s' must be one of %s, not '%s'.%s", param, strings.Join(allowed, ", "), stint.Excerpt(value, 64), spelling.Hint(value, allowed))
	}
}

func (l *errorList) framework(d *stint.Definition) {
	if d.Framework == "" {
		l.add(stint.MissingParam("framework", "'framework' is required: one of %s.", strings.Join(catalog.Names(), ", ")))
	}
	l.oneOf("framework", d.Framework, catalog.Names())
	if f, ok := catalog.Find(d.Framework); ok && f.NeedsCommand && len(d.Command) == 0 {
		l.add(stint.MissingParam("command", "The framework '%s' needs 'command', a list of the program and its arguments.", d.Framework))
	}
	for i, word := range d.Command {
		if strings.ContainsRune(word, 0) || i == 0 && word == "" {
			l.invalid(fmt.Sprintf("command[%d]", i), "A word of 'command' may not be empty or contain a NUL character.")
		}
	}
}

// network checks the network mode, and the hosts and addresses of the network's rules.
func (l *errorList) network(d *stint.Definition) {
	if n := d.Network; n != nil {
		l.oneOf("network.mode", n.Mode, networkModes)
		l.rules("network.allow", n.Allow, false)
		l.rules("network.inspect", n.Inspect, true)
	}
}

func (l *errorList) secrets(d *stint.Definition) {
	for _, name := range slices.Sorted(maps.Keys(d.Secrets)) {
		at := "secrets." + name
		l.add(stint.CheckVariable(at, name))
		hosts := d.Secrets[name].Hosts
		if hosts != nil && len(hosts) == 0 {
			l.invalid(at+".hosts", "'%s.hosts' is empty. List the hosts to which the secret may be sent, or omit 'hosts' if the agent shall read the value.", at)
		}
		l.rules(at+".hosts", hosts, true)
	}
}

// maxLabels is the maximum size of placement.labels as JSON, in bytes. An index contains
// them.
const maxLabels = 2 << 10

func (l *errorList) placement(p *stint.Placement) {
	if p == nil {
		return
	}
	if _, empty := p.Labels[""]; empty {
		l.invalid("placement.labels.", "The name of a label in 'placement.labels' may not be empty.")
	}
	if text, err := json.Marshal(p.Labels); err != nil || len(text) > maxLabels {
		l.invalid("placement.labels", "'placement.labels' may have %d bytes at most, as JSON.", maxLabels)
	}
}

// CheckSecretHosts returns an error for each entry that cannot be a host of a secret.
func CheckSecretHosts(hosts []string) error {
	var errs errorList
	errs.rules("hosts", hosts, true)
	return stint.JoinErrors(errs...)
}

func (l *errorList) rules(at string, entries []string, hostsOnly bool) {
	for i, entry := range entries {
		param := fmt.Sprintf("%s[%d]", at, i)
		r, err := policy.ParseRule(entry)
		switch {
		case err != nil:
			l.invalid(param, "%v", err)
		case hostsOnly && r.Domain == "":
			l.invalid(param, "'%s' must be a domain or *.domain, with an optional port: a certificate contains host names, not addresses.", stint.Excerpt(entry, 128))
		}
	}
}

func (l *errorList) provider(d *stint.Definition) {
	p := d.Provider
	if p == nil {
		return
	}
	if catalog.ProviderType(d) == "" {
		l.add(stint.MissingParam("provider.type", "'provider.type' is required: one of %s.", strings.Join(catalog.ProviderTypes(), ", ")))
	}
	l.oneOf("provider.type", p.Type, catalog.ProviderTypes())
	if p.BaseURL != "" {
		l.url("provider.baseUrl", p.BaseURL)
	}
	if p.APIKey != nil {
		l.add(stint.CheckVariable("provider.apiKey.secret", p.APIKey.Secret))
	}
	for _, model := range slices.Sorted(maps.Keys(p.Prices)) {
		if r := p.Prices[model]; min(r.Input, r.Output, r.CacheRead, r.CacheWrite) < 0 {
			l.invalid("provider.prices."+model, "A price cannot be negative.")
		}
	}
}

func (l *errorList) mcpServer(name string, s stint.MCPServer) {
	at := "mcpServers." + name
	l.add(stint.CheckName(at, name))
	switch {
	case (s.URL == "") == (len(s.Command) == 0):
		l.invalid(at, "'%s' needs either 'url' or 'command', a list of the program and its arguments.", at)
	case s.URL != "":
		l.url(at+".url", s.URL)
		l.headerSecrets(at, s)
		if len(s.Env) > 0 {
			l.invalid(at+".env", "'%s.env' is valid only with 'command'. Use 'headers' instead.", at)
		}
	case len(s.Headers) > 0:
		l.invalid(at+".headers", "'%s.headers' is valid only with 'url'. Use 'env' instead.", at)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		l.add(stint.CheckVariable(at+".env."+key, key))
	}
}

// headerSecrets appends an error for each header with a secret that the proxy cannot
// insert. The proxy inserts secrets only into TLS connections to a domain, and into
// connections to the worker's loopback interface.
func (l *errorList) headerSecrets(at string, s stint.MCPServer) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return // reported by url
	}
	name, err := policy.CanonicalDomain(u.Hostname())
	if err == nil && (u.Scheme == "https" || name == stint.HostAlias) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		if slices.ContainsFunc(References(s.Headers[key]), Reference.isSecret) {
			l.invalid(at+".headers."+key, "The secret in '%s.headers.%s' cannot be inserted: '%s.url' must be https:// with a domain, or http://%s:PORT for the worker's loopback. Change the URL, or remove the secret.", at, key, at, stint.HostAlias)
		}
	}
}

func (l *errorList) url(at, s string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		l.invalid(at, "'%s' must be a URL that begins with http:// or https:// and does not contain a user.", at)
	}
}

func (l *errorList) resources(r *stint.Resources) {
	if r == nil {
		return
	}
	if r.CPU < 0 || r.CPU > 1024 {
		l.invalid("resources.cpu", "'resources.cpu' must be between 0.01 and 1024 cores.")
	}
	if r.Memory != 0 && r.Memory < 16*stint.MiB {
		l.invalid("resources.memory", "'resources.memory' must be 16MiB or more.")
	}
	if r.Disk != 0 && r.Disk < stint.MiB {
		l.invalid("resources.disk", "'resources.disk' must be 1MiB or more.")
	}
	if r.Pids != 0 && (r.Pids < 8 || r.Pids > 1<<20) {
		l.invalid("resources.pids", "'resources.pids' must be between 8 and 1048576.")
	}
}
