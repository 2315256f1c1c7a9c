package stint

import (
	"encoding/json"
	"time"
)

// Definition describes an agent: its framework, its inputs, and its limits.
// Users write it as YAML or JSON with these keys.
type Definition struct {
	Name         string                 `json:"name,omitempty"`
	Description  string                 `json:"description,omitempty"`
	Framework    string                 `json:"framework"`
	Command      []string               `json:"command,omitempty"`
	Image        string                 `json:"image,omitempty"`
	Instructions string                 `json:"instructions,omitempty"`
	Model        string                 `json:"model,omitempty"`
	Provider     *Provider              `json:"provider,omitempty"`
	Environment  map[string]string      `json:"environment,omitempty"`
	Volumes      map[string]VolumeMount `json:"volumes,omitempty"`
	Artifact     *ArtifactMount         `json:"artifact,omitempty"`
	Network      *Network               `json:"network,omitempty"`
	Secrets      map[string]SecretUse   `json:"secrets,omitempty"`
	Resources    *Resources             `json:"resources,omitempty"`
	Limits       *Limits                `json:"limits,omitempty"`
	Timeout      string                 `json:"timeout,omitempty"`
	Sandbox      string                 `json:"sandbox,omitempty"`
	MCPServers   map[string]MCPServer   `json:"mcpServers,omitempty"`
	Output       *Output                `json:"output,omitempty"`
	Retries      *Retries               `json:"retries,omitempty"`
	Placement    *Placement             `json:"placement,omitempty"`
}

// Provider is the model endpoint of an agent. The agent receives the address of
// the model proxy and a placeholder. The proxy, outside the sandbox, inserts the
// API key.
type Provider struct {
	Type    string     `json:"type,omitempty"`
	BaseURL string     `json:"baseUrl,omitempty"`
	APIKey  *SecretRef `json:"apiKey,omitempty"`
	// Prices contains the price of each model by name. The price of "*" applies to
	// all other models.
	Prices map[string]Price `json:"prices,omitempty"`
}

// MCPServer is a server of the Model Context Protocol that the agent can use:
// a URL (streamable HTTP), or a command that runs inside the sandbox. Values of
// Headers and Env may contain ${{ vars.X }} and ${{ secrets.X }}. The egress proxy,
// outside the sandbox, inserts the secrets of headers.
type MCPServer struct {
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// SecretRef refers to a secret by name.
type SecretRef struct {
	Secret string `json:"secret"`
}

// VolumeMount mounts a volume in the sandbox. The key in Definition.Volumes is
// the volume's name.
type VolumeMount struct {
	Path     string `json:"path,omitempty"`
	Version  string `json:"version,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Writable bool   `json:"writable,omitempty"`
}

// ArtifactMount sets the path of the artifact in the sandbox, which is also the
// agent's working directory.
type ArtifactMount struct {
	Path string `json:"path,omitempty"`
}

// Network lists the destinations that the sandbox may reach.
type Network struct {
	Mode  string   `json:"mode,omitempty"`
	Allow []string `json:"allow,omitempty"`
	// Inspect lists hosts (domain or *.domain, optional :port). The proxy
	// terminates TLS connections to them, so that it logs each request in full.
	Inspect []string `json:"inspect,omitempty"`
}

// SecretUse names a secret that the agent uses. If Hosts is not empty, the agent has a
// placeholder, which the egress proxy replaces by the value in requests to these hosts.
// Otherwise the value is an environment variable of the agent, unless the stored secret
// has hosts of its own.
type SecretUse struct {
	Hosts []string `json:"hosts,omitempty"`
}

// Resources are the limits of a sandbox.
type Resources struct {
	CPU    float64 `json:"cpu,omitempty"`
	Memory Size    `json:"memory,omitempty"`
	Disk   Size    `json:"disk,omitempty"`
	Pids   int64   `json:"pids,omitempty"`
}

// Output describes a structured result.
type Output struct {
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Placement contains the labels that the worker of a run must have. A run waits until such
// a worker is connected.
type Placement struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// Fits reports whether a worker with the labels may claim the run.
func (p *Placement) Fits(labels map[string]string) bool {
	if p == nil {
		return true
	}
	for key, value := range p.Labels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// The types of providers.
const (
	ProviderAnthropic = "anthropic"
	ProviderResponses = "openai-responses"
	ProviderChat      = "openai-chat"
	ProviderOffline   = "offline"
)

// Price returns the price of a model that has the given names: the price of the
// first name in Prices, or else the price of "*". It reports whether there is one.
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

// ArtifactPath returns the path of the artifact in the sandbox, which is the working
// directory. The default is /workspace.
func (d *Definition) ArtifactPath() string {
	if d.Artifact != nil && d.Artifact.Path != "" {
		return d.Artifact.Path
	}
	return "/workspace"
}

// NetworkMode returns public, restricted, or none. The default is public.
func (d *Definition) NetworkMode() string {
	if d.Network != nil && d.Network.Mode != "" {
		return d.Network.Mode
	}
	return "public"
}

// Schema returns the JSON Schema that the agent's last message must match, or nil.
func (d *Definition) Schema() json.RawMessage {
	if d.Output == nil {
		return nil
	}
	return d.Output.Schema
}

// Idle returns IdleTimeout as a duration, or 0 if IdleTimeout is empty.
func (l *Limits) Idle() time.Duration {
	d, _ := time.ParseDuration(l.IdleTimeout) // the definition was validated before it was stored
	return d
}
