// Package catalog lists the frameworks and the properties that the validation of
// definitions needs. It imports no adapter, so every package may use it. Package
// registry has the adapters.
package catalog

import "github.com/stint-dev/stint"

// Framework describes one framework.
type Framework struct {
	Name string
	// ProviderType is the only provider type that the framework accepts, and the
	// default if a definition's provider has no type. It is empty if the framework
	// accepts several types or uses no model.
	ProviderType string
	// ReportsCost is true if the agent itself may report the cost of a run.
	ReportsCost bool
	// NeedsCommand is true if the definition must have a 'command'.
	NeedsCommand bool
}

// The frameworks.
var (
	Shell      = Framework{Name: "shell"}
	Command    = Framework{Name: "command", NeedsCommand: true}
	Assistant  = Framework{Name: "assistant"}
	ClaudeCode = Framework{Name: "claude-code", ProviderType: stint.ProviderAnthropic, ReportsCost: true}
	Codex      = Framework{Name: "codex", ProviderType: stint.ProviderResponses}
	ACP        = Framework{Name: "acp", ReportsCost: true, NeedsCommand: true}
)

// All returns the frameworks in the order in which lists show them.
func All() []Framework {
	return []Framework{Shell, Command, Assistant, ClaudeCode, Codex, ACP}
}

// Names returns the names of all frameworks, in the order of All.
func Names() []string {
	all := All()
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.Name
	}
	return names
}

// Find returns the framework with the given name, and reports whether it exists.
func Find(name string) (Framework, bool) {
	for _, f := range All() {
		if f.Name == name {
			return f, true
		}
	}
	return Framework{}, false
}
