package definition

import (
	"maps"
	"regexp"
	"slices"

	"github.com/stint-dev/stint"
)

// reference matches a reference, or the literal "$${{", which stands for "${{". In a
// literal the groups are empty.
var reference = regexp.MustCompile(`\$\$\{\{|\$\{\{\s*(vars|secrets)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// The sources of the values of references.
const (
	FromVariables = "vars"
	FromSecrets   = "secrets"
)

// Reference is one ${{ vars.X }} or ${{ secrets.X }} in a definition.
type Reference struct {
	Source string // FromVariables or FromSecrets
	Name   string
}

func (r Reference) isSecret() bool { return r.Source == FromSecrets }

// References returns the references in the texts, each once.
func References(texts ...string) []Reference {
	var out []Reference
	for _, text := range texts {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if r := (Reference{m[1], m[2]}); r.Name != "" && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// AllReferences returns the variables and secrets that a definition needs, each once.
// They include brokered secrets and the secret with the provider's key. The order is
// the same for each call.
func AllReferences(d *stint.Definition) []Reference {
	texts := sortedValues(d.Environment)
	for _, name := range slices.Sorted(maps.Keys(d.Volumes)) {
		texts = append(texts, name, d.Volumes[name].Version)
	}
	for _, name := range slices.Sorted(maps.Keys(d.MCPServers)) {
		texts = append(texts, sortedValues(d.MCPServers[name].Headers)...)
		texts = append(texts, sortedValues(d.MCPServers[name].Env)...)
	}
	all := References(texts...)
	secrets := slices.Sorted(maps.Keys(d.Secrets))
	if d.Provider != nil && d.Provider.APIKey != nil {
		secrets = append(secrets, d.Provider.APIKey.Secret)
	}
	for _, name := range secrets {
		if r := (Reference{FromSecrets, name}); !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// sortedValues returns the values of a map in the order of its keys.
func sortedValues(m map[string]string) []string {
	var values []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

// Interpolate replaces the references in text with their values, and "$${{" with "${{".
// A reference without a value becomes empty.
func Interpolate(text string, vars, secrets map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		m := reference.FindStringSubmatch(match)
		if m[2] == "" {
			return match[1:]
		}
		if m[1] == FromVariables {
			return vars[m[2]]
		}
		return secrets[m[2]]
	})
}
