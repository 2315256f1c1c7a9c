package stint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Defaults and bounds of definitions.
const (
	DefaultTimeout     = 2 * time.Hour
	MaxTimeout         = 7 * 24 * time.Hour
	DefaultOutputBytes = 64 * MiB
	MaxOutputBytes     = 16 * GiB
	MaxDefinitionBytes = 256 << 10
)

// Definition says what an agent is: how it is driven, what it is given and
// what bounds it. It is pushed as YAML or JSON with these keys.
type Definition struct {
	Name         string                    `json:"name,omitempty"`
	Description  string                    `json:"description,omitempty"`
	Framework    string                    `json:"framework"`
	Command      []string                  `json:"command,omitempty"`
	Image        string                    `json:"image,omitempty"`
	Instructions string                    `json:"instructions,omitempty"`
	Model        string                    `json:"model,omitempty"`
	Provider     *Provider                 `json:"provider,omitempty"`
	Environment  map[string]string         `json:"environment,omitempty"`
	Volumes      map[string]VolumeMount    `json:"volumes,omitempty"`
	Artifact     *ArtifactMount            `json:"artifact,omitempty"`
	Network      *Network                  `json:"network,omitempty"`
	Secrets      map[string]BrokeredSecret `json:"secrets,omitempty"`
	Resources    *Resources                `json:"resources,omitempty"`
	Limits       *Limits                   `json:"limits,omitempty"`
	Timeout      string                    `json:"timeout,omitempty"`
	Sandbox      string                    `json:"sandbox,omitempty"`
	MCPServers   map[string]MCPServer      `json:"mcpServers,omitempty"`
	Output       *Output                   `json:"output,omitempty"`
	Retries      *Retries                  `json:"retries,omitempty"`
	Placement    *Placement                `json:"placement,omitempty"`
}

// Provider names the model endpoint of an agent. The agent itself is given
// another address and a placeholder: the key is put in on the host.
type Provider struct {
	Type    string     `json:"type,omitempty"`
	BaseURL string     `json:"baseUrl,omitempty"`
	APIKey  *SecretRef `json:"apiKey,omitempty"`
	// Prices tells what models cost, by their names; "*" stands for all others.
	Prices map[string]Price `json:"prices,omitempty"`
}

// MCPServer is a server of the Model Context Protocol that the agent is given:
// a URL (streamable HTTP), or a command that runs inside the sandbox. Values of
// Headers and Env may hold ${{ vars.X }} and ${{ secrets.X }}; a secret in a
// header is put in on the host.
type MCPServer struct {
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// SecretRef points to a secret by name.
type SecretRef struct {
	Secret string `json:"secret"`
}

// VolumeMount shows a volume inside the sandbox. Its key in the definition is
// the volume's name.
type VolumeMount struct {
	Path     string `json:"path,omitempty"`
	Version  string `json:"version,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Writable bool   `json:"writable,omitempty"`
}

// ArtifactMount is where the artifact appears; it is the working directory.
type ArtifactMount struct {
	Path string `json:"path,omitempty"`
}

// Network says what the sandbox may reach.
type Network struct {
	Mode  string   `json:"mode,omitempty"`
	Allow []string `json:"allow,omitempty"`
	// Inspect names hosts (domain or *.domain, optional :port) whose TLS is
	// terminated, so that each request to them is logged in full.
	Inspect []string `json:"inspect,omitempty"`
}

// BrokeredSecret names the hosts toward which the egress proxy puts a value in.
type BrokeredSecret struct {
	Hosts []string `json:"hosts,omitempty"`
}

// Resources bound a sandbox.
type Resources struct {
	CPU    float64 `json:"cpu,omitempty"`
	Memory Size    `json:"memory,omitempty"`
	Disk   Size    `json:"disk,omitempty"`
	Pids   int64   `json:"pids,omitempty"`
}

// Output asks for a structured result.
type Output struct {
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Retries says how often a run may start again, and after what.
type Retries struct {
	Max int      `json:"max,omitempty"`
	On  []string `json:"on,omitempty"`
}

// Placement narrows the workers that may take the run.
type Placement struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// ParseDefinition reads a definition from JSON. Unknown keys, wrong types and
// values out of range are refused, each with its path; several at once are
// told together. The version's identity is the digest of CanonicalJSON.
func ParseDefinition(raw []byte) (*Definition, error) {
	if len(raw) > MaxDefinitionBytes {
		return nil, InvalidParam("definition", "A definition may have %d bytes at most.", MaxDefinitionBytes)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, InvalidParam("definition", "The definition is no valid JSON: %v.", err)
	}
	if faults := unknownKeys(tree, reflect.TypeFor[Definition](), ""); len(faults) > 0 {
		return nil, JoinErrors(faults)
	}
	var d Definition
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&d); err != nil {
		return nil, typeFault(err)
	}
	if err := JoinErrors(d.faults()); err != nil {
		return nil, err
	}
	return &d, nil
}

func typeFault(err error) *Error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return InvalidParam(t.Field, "'%s' must be %s, not a JSON %s.", t.Field, kindName(t.Type), t.Value)
	}
	return InvalidParam("definition", "The definition cannot be read: %v.", err)
}

func kindName(t reflect.Type) string {
	if t == reflect.TypeFor[Size]() {
		return "a size such as 512MiB or 2GiB"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct, reflect.Pointer:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// unknownKeys compares the keys of a JSON value with the members of t.
func unknownKeys(v any, t reflect.Type, at string) []*Error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	object, ok := v.(map[string]any)
	if !ok {
		if at == "" {
			return []*Error{InvalidParam("definition", "A definition is a JSON object.")}
		}
		return nil
	}
	var faults []*Error
	for _, key := range slices.Sorted(maps.Keys(object)) {
		where := strings.TrimPrefix(at+"."+key, ".")
		switch t.Kind() {
		case reflect.Map:
			faults = append(faults, unknownKeys(object[key], t.Elem(), where)...)
		case reflect.Struct:
			member, known := memberOf(t, key)
			if !known {
				faults = append(faults, InvalidParam(where, "Unknown key '%s'.%s", clip(where, 128), nearest(t, key)))
				continue
			}
			faults = append(faults, unknownKeys(object[key], member, where)...)
		}
	}
	return faults
}

func memberOf(t reflect.Type, key string) (reflect.Type, bool) {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == key {
			return f.Type, true
		}
	}
	return nil, false
}

// nearest suggests the member that differs from key in case only.
func nearest(t reflect.Type, key string) string {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.EqualFold(name, key) {
			return " Did you mean '" + name + "'?"
		}
	}
	return ""
}

var (
	frameworks = []string{"shell", "command", "assistant", "claude-code", "codex", "acp"}
	providers  = []string{"anthropic", "openai-responses", "openai-chat", "offline"}
	networks   = []string{"public", "restricted", "none"}
	sandboxes  = []string{"default", "namespace", "gvisor"}
	// oldSandboxes can appear in stored definitions, which stay readable. A server
	// refuses them in new definitions, because it does not have such an isolator.
	oldSandboxes = []string{"docker", "kubernetes"}
)

func (d *Definition) faults() (faults []*Error) {
	add := func(e *Error) {
		if e != nil {
			faults = append(faults, e)
		}
	}
	if d.Name != "" {
		add(CheckName("name", d.Name))
	}
	if d.Framework == "" {
		add(MissingParam("framework", "'framework' is required: one of %s.", strings.Join(frameworks, ", ")))
	} else {
		add(oneOf("framework", d.Framework, frameworks))
	}
	if needs := d.Framework == "command" || d.Framework == "acp"; needs && len(d.Command) == 0 {
		add(MissingParam("command", "The framework '%s' needs 'command', a list of the program and its arguments.", d.Framework))
	}
	for i, word := range d.Command {
		if strings.ContainsRune(word, 0) || i == 0 && word == "" {
			add(InvalidParam(fmt.Sprintf("command[%d]", i), "A word of 'command' may not be empty or hold a NUL character."))
		}
	}
	if d.Network != nil && d.Network.Mode != "" {
		add(oneOf("network.mode", d.Network.Mode, networks))
	}
	if d.Sandbox != "" && !slices.Contains(oldSandboxes, d.Sandbox) {
		add(oneOf("sandbox", d.Sandbox, sandboxes))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Environment)) {
		add(CheckVariable("environment."+name, name))
	}
	faults = append(faults, d.mountFaults()...)
	faults = append(faults, d.networkFaults()...)
	faults = append(faults, d.modelFaults()...)
	return append(faults, d.boundFaults()...)
}

// networkFaults checks what the definition says about addresses and hosts.
func (d *Definition) networkFaults() (faults []*Error) {
	check := func(at string, entries []string, hostsOnly bool) {
		for i, entry := range entries {
			param := fmt.Sprintf("%s[%d]", at, i)
			r, err := ParseRule(entry)
			switch {
			case err != nil:
				faults = append(faults, InvalidParam(param, "%v", err))
			case hostsOnly && r.Domain == "":
				faults = append(faults, InvalidParam(param, "'%s' must be a domain or *.domain, with an optional port: a certificate names hosts, not addresses.", clip(entry, 128)))
			}
		}
	}
	if n := d.Network; n != nil {
		check("network.allow", n.Allow, false)
		check("network.inspect", n.Inspect, true)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Secrets)) {
		if len(d.Secrets[name].Hosts) == 0 {
			faults = append(faults, InvalidParam("secrets."+name+".hosts", "A brokered secret goes to the hosts that are named only: name one or more under 'secrets.%s.hosts'.", name))
		}
		check("secrets."+name+".hosts", d.Secrets[name].Hosts, true)
	}
	return faults
}

func (d *Definition) mountFaults() (faults []*Error) {
	seen := map[string]string{}
	claim := func(param, p, dflt string) {
		if p == "" {
			p = dflt
		}
		if e := checkMountPath(param, p); e != nil {
			faults = append(faults, e)
			return
		}
		for other, owner := range seen {
			if within(p, other) || within(other, p) {
				faults = append(faults, InvalidParam(param, "'%s' and '%s' overlap: choose folders that do not lie in one another.", param, owner))
				return
			}
		}
		seen[p] = param
	}
	claim("artifact.path", d.ArtifactPath(), "/workspace")
	for _, name := range slices.Sorted(maps.Keys(d.Volumes)) {
		at := "volumes." + name
		if strings.Contains(name+d.Volumes[name].Version, "secrets.") && strings.Contains(name+d.Volumes[name].Version, "${{") {
			faults = append(faults, InvalidParam(at, "A volume's name and version are shown to users and cannot hold a secret. Use '${{ vars.X }}'."))
			continue
		}
		if !strings.Contains(name, "${{") {
			if e := CheckName(at, name); e != nil {
				faults = append(faults, e)
				continue
			}
		}
		claim(at+".path", d.Volumes[name].Path, "/volumes/"+name)
	}
	return faults
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// forbiddenMounts are places of the sandbox that a definition cannot cover.
var forbiddenMounts = []string{"/", "/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/run", "/boot", "/home/agent", "/tmp"}

func checkMountPath(param, p string) *Error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) || len(p) > 512 {
		return InvalidParam(param, "'%s' must be an absolute path without '.', '..' or a slash at its end.", clip(p, 128))
	}
	for _, f := range forbiddenMounts {
		if p == f || f != "/" && f != "/home/agent" && f != "/tmp" && within(p, f) || within(f, p) {
			return InvalidParam(param, "'%s' belongs to the sandbox itself. Use a folder such as /workspace or /data.", clip(p, 128))
		}
	}
	return nil
}

func (d *Definition) boundFaults() (faults []*Error) {
	add := func(e *Error) {
		if e != nil {
			faults = append(faults, e)
		}
	}
	if d.Timeout != "" {
		_, e := ParseTimeout("timeout", d.Timeout)
		add(e)
	}
	if r := d.Resources; r != nil {
		if r.CPU < 0 || r.CPU > 1024 {
			add(InvalidParam("resources.cpu", "'resources.cpu' must be between 0.01 and 1024 cores."))
		}
		if r.Memory != 0 && r.Memory < 16*MiB {
			add(InvalidParam("resources.memory", "'resources.memory' must be 16MiB or more."))
		}
		if r.Disk != 0 && r.Disk < MiB {
			add(InvalidParam("resources.disk", "'resources.disk' must be 1MiB or more."))
		}
		if r.Pids != 0 && (r.Pids < 8 || r.Pids > 1<<20) {
			add(InvalidParam("resources.pids", "'resources.pids' must be between 8 and 1048576."))
		}
	}
	if d.Limits != nil {
		add(d.Limits.Check("limits"))
	}
	if r := d.Retries; r != nil && (r.Max < 0 || r.Max > 10) {
		add(InvalidParam("retries.max", "'retries.max' must be between 0 and 10."))
	}
	return faults
}

// Check tells what is wrong with the limits; at is the path of their object.
func (l *Limits) Check(at string) *Error {
	if l.OutputBytes < 0 || l.OutputBytes > MaxOutputBytes {
		return InvalidParam(at+".outputBytes", "'%s.outputBytes' must be between 1 and %s.", at, MaxOutputBytes)
	}
	if l.MaxTurns < 0 || l.MaxTokens < 0 || l.MaxCostUSD < 0 {
		return InvalidParam(at, "'%s.maxTurns', '%s.maxTokens' and '%s.maxCostUsd' cannot be negative.", at, at, at)
	}
	if l.IdleTimeout != "" {
		if _, e := ParseTimeout(at+".idleTimeout", l.IdleTimeout); e != nil {
			return e
		}
	}
	return nil
}

// ParseTimeout reads a time limit: a Go duration from 1s to 168h.
func ParseTimeout(param, s string) (time.Duration, *Error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > MaxTimeout {
		return 0, InvalidParam(param, "'%s' must be a duration from 1s to 168h such as 90s, 30m or 2h.", param)
	}
	return d, nil
}

// ArtifactPath is where the artifact appears: the working directory.
func (d *Definition) ArtifactPath() string {
	if d.Artifact != nil && d.Artifact.Path != "" {
		return d.Artifact.Path
	}
	return "/workspace"
}

// NetworkMode is public, restricted or none.
func (d *Definition) NetworkMode() string {
	if d.Network != nil && d.Network.Mode != "" {
		return d.Network.Mode
	}
	return "public"
}

// RunTimeout is the definition's time limit, or the default.
func (d *Definition) RunTimeout() time.Duration {
	if t, err := ParseTimeout("timeout", d.Timeout); err == nil {
		return t
	}
	return DefaultTimeout
}

func oneOf(param, value string, allowed []string) *Error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return InvalidParam(param, "'%s' must be one of %s, not '%s'.", param, strings.Join(allowed, ", "), clip(value, 64))
}

// CanonicalJSON writes raw with sorted keys and no white space, so that two
// definitions that mean the same have the same bytes.
func CanonicalJSON(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
