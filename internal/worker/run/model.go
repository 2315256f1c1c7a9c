package run

import (
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// modelEndpoint returns the address of the model proxy in the sandbox, or nil if the
// definition has no model. If the definition has a model but the sandbox has no network,
// it returns an error.
func (s *state) modelEndpoint() (*framework.Endpoint, error) {
	d := s.definition()
	if catalog.ModelURL(d) == "" {
		return nil, nil
	}
	if s.sandbox.Network() == nil {
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

// modelProxy returns the configuration of the model proxy, or nil if the definition
// has no model.
func (s *state) modelProxy() *egress.Model {
	d := s.definition()
	if catalog.ModelURL(d) == "" {
		return nil
	}
	m := &egress.Model{
		Type: catalog.ProviderType(d), BaseURL: catalog.ModelURL(d), Count: s.meter.AddCall,
		Heard: func() { s.meter.Heard(s.Now()) },
	}
	if key := d.Provider.APIKey; key != nil {
		m.Key, m.KeyName = s.a.Secrets()[key.Secret], key.Secret
	}
	return m
}

// mcpServers returns the definition's MCP servers, with placeholders for the
// secrets that are inserted outside the sandbox.
func (s *state) mcpServers() (out []framework.MCPServer) {
	d, secrets := s.definition(), s.a.Secrets()
	placeholders := map[string]string{}
	for name := range secrets {
		placeholders[name] = placeholder(name)
	}
	for _, name := range slices.Sorted(maps.Keys(d.MCPServers)) {
		server := d.MCPServers[name]
		m := framework.MCPServer{Name: name, URL: server.URL, Command: server.Command, Headers: map[string]string{}, Env: map[string]string{}}
		for key, value := range server.Headers {
			m.Headers[key] = definition.Interpolate(value, s.a.Plan.Variables, placeholders)
		}
		for key, value := range server.Env {
			m.Env[key] = definition.Interpolate(value, s.a.Plan.Variables, s.visibleSecrets(secrets))
		}
		out = append(out, m)
	}
	return out
}
