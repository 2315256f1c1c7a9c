package definition

import (
	"regexp"
	"slices"
)

var reference = regexp.MustCompile(`\$\{\{\s*(vars|secrets)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// Reference is one ${{ vars.X }} or ${{ secrets.X }} in a definition.
type Reference struct {
	Source string // vars or secrets
	Name   string
}

// References returns the references in text, each once.
func References(text string) []Reference {
	var out []Reference
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if r := (Reference{m[1], m[2]}); !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// Interpolate replaces the references in text with their values. A reference
// without a value becomes empty.
func Interpolate(text string, vars, secrets map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		m := reference.FindStringSubmatch(match)
		if m[1] == "vars" {
			return vars[m[2]]
		}
		return secrets[m[2]]
	})
}
