package stint

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Where the models of providers are, unless the definition says otherwise.
const (
	AnthropicURL = "https://api.anthropic.com"
	OpenAIURL    = "https://api.openai.com/v1"
)

// The types of providers.
const (
	ProviderAnthropic = "anthropic"
	ProviderResponses = "openai-responses"
	ProviderChat      = "openai-chat"
	ProviderOffline   = "offline"
)

// ProviderType is the type of the definition's provider, which some frameworks
// imply; empty without a provider.
func (d *Definition) ProviderType() string {
	switch {
	case d.Provider == nil:
		return ""
	case d.Provider.Type != "":
		return d.Provider.Type
	case d.Framework == "claude-code":
		return ProviderAnthropic
	case d.Framework == "codex":
		return ProviderResponses
	}
	return ""
}

// ModelURL is the base URL of the provider's API, without a slash at its end;
// empty without a provider and offline.
func (d *Definition) ModelURL() string {
	switch kind := d.ProviderType(); {
	case kind == "" || kind == ProviderOffline:
		return ""
	case d.Provider.BaseURL != "":
		return strings.TrimRight(d.Provider.BaseURL, "/")
	case kind == ProviderAnthropic:
		return AnthropicURL
	}
	return OpenAIURL
}

// Price finds what a model costs that is known by any of the names: the first
// one that has a price, else that of "*".
func (p *Provider) Price(names ...string) (Price, bool) {
	if p == nil {
		return Price{}, false
	}
	for _, name := range names {
		if price, ok := p.Prices[name]; ok {
			return price, true
		}
	}
	price, ok := p.Prices["*"]
	return price, ok
}

// TellsCost reports whether the framework itself tells what a run costs.
func (d *Definition) TellsCost() bool { return d.Framework == "claude-code" || d.Framework == "acp" }

// modelFaults checks what the definition says about models and their tools.
func (d *Definition) modelFaults() (faults []*Error) {
	add := func(e *Error) {
		if e != nil {
			faults = append(faults, e)
		}
	}
	if p := d.Provider; p != nil {
		if d.ProviderType() == "" {
			add(MissingParam("provider.type", "'provider.type' is required: one of %s.", strings.Join(providers, ", ")))
		} else if p.Type != "" {
			add(oneOf("provider.type", p.Type, providers))
		}
		if p.BaseURL != "" {
			add(checkURL("provider.baseUrl", p.BaseURL))
		}
		if p.APIKey != nil {
			add(CheckVariable("provider.apiKey.secret", p.APIKey.Secret))
		}
		for _, model := range slices.Sorted(maps.Keys(p.Prices)) {
			if r := p.Prices[model]; min(r.Input, r.Output, r.CacheRead, r.CacheWrite) < 0 {
				add(InvalidParam("provider.prices."+model, "A price cannot be negative."))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.MCPServers)) {
		s := d.MCPServers[name]
		faults = append(faults, s.faults("mcpServers."+name, name)...)
	}
	return faults
}

func (s *MCPServer) faults(at, name string) (faults []*Error) {
	if e := CheckName(at, name); e != nil {
		faults = append(faults, e)
	}
	switch {
	case (s.URL == "") == (len(s.Command) == 0):
		faults = append(faults, InvalidParam(at, "'%s' needs either 'url' or 'command', a list of the program and its arguments.", at))
	case s.URL != "":
		if e := checkURL(at+".url", s.URL); e != nil {
			faults = append(faults, e)
		}
		faults = append(faults, s.secretFaults(at)...)
		if len(s.Env) > 0 {
			faults = append(faults, InvalidParam(at+".env", "'%s.env' belongs to a server with 'command'. Give 'headers' instead.", at))
		}
	case len(s.Headers) > 0:
		faults = append(faults, InvalidParam(at+".headers", "'%s.headers' belongs to a server with 'url'. Give 'env' instead.", at))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		if e := CheckVariable(at+".env."+key, key); e != nil {
			faults = append(faults, e)
		}
	}
	return faults
}

var secretReference = regexp.MustCompile(`\$\{\{\s*secrets\.`)

// secretFaults refuses secrets in headers that would never be put in: that is
// done on the way out, in TLS toward a name or toward the worker's loopback.
func (s *MCPServer) secretFaults(at string) (faults []*Error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil // told already
	}
	name, err := CanonicalDomain(u.Hostname())
	if err == nil && (u.Scheme == "https" || name == HostAlias) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		if secretReference.MatchString(s.Headers[key]) {
			faults = append(faults, InvalidParam(at+".headers."+key, "The secret in '%s.headers.%s' cannot be put in: that is done toward servers that '%s.url' names by a domain with https://, and toward http://%s:PORT, the worker's loopback. Change the URL, or leave the secret out.", at, key, at, HostAlias))
		}
	}
	return faults
}

func checkURL(at, s string) *Error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return InvalidParam(at, "'%s' must be a URL that begins with http:// or https://, without a user in it.", at)
	}
	return nil
}

// Tighten gives the limits of a run: those asked for where they are tighter
// than l. A looser one is an error that names it below at.
func (l Limits) Tighten(at string, asked *Limits) (Limits, error) {
	if asked == nil {
		return l, nil
	}
	var faults []*Error
	fit := func(member string, tight bool, is, may any) bool {
		if !tight {
			faults = append(faults, InvalidParam(at+"."+member, "'%s.%s' is %v but the agent allows %v at most.", at, member, is, may))
		}
		return tight
	}
	if a := asked.OutputBytes; a > 0 && fit("outputBytes", atMost(a, l.OutputBytes), a, l.OutputBytes) {
		l.OutputBytes = a
	}
	if a := asked.MaxTurns; a > 0 && fit("maxTurns", atMost(a, l.MaxTurns), a, l.MaxTurns) {
		l.MaxTurns = a
	}
	if a := asked.MaxTokens; a > 0 && fit("maxTokens", atMost(a, l.MaxTokens), a, l.MaxTokens) {
		l.MaxTokens = a
	}
	if a := asked.MaxCostUSD; a > 0 && fit("maxCostUsd", atMost(a, l.MaxCostUSD), a, l.MaxCostUSD) {
		l.MaxCostUSD = a
	}
	if a := asked.Idle(); a > 0 && fit("idleTimeout", atMost(a, l.Idle()), a, l.Idle()) {
		l.IdleTimeout = asked.IdleTimeout
	}
	return l, JoinErrors(faults)
}

// atMost reports whether a bound allows a value; 0 allows all.
func atMost[T cmp.Ordered](value, bound T) bool {
	var none T
	return bound == none || value <= bound
}

// Idle is how long the run may be silent; 0 is no bound.
func (l *Limits) Idle() time.Duration {
	d, _ := time.ParseDuration(l.IdleTimeout) // Check has seen it
	return d
}

// Schema is the JSON Schema of the agent's last message; nil without one.
func (d *Definition) Schema() json.RawMessage {
	if d.Output == nil {
		return nil
	}
	return d.Output.Schema
}
