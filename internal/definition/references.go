package definition

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/spelling"
)

// opening matches the beginning of a reference, or a literal "$${{".
var opening = regexp.MustCompile(`\$?\$\{\{`)

// interpolated returns the texts of a definition in which references are replaced, by
// their paths. The key of a volume has the path of the volume.
func interpolated(d *stint.Definition) map[string][]string {
	texts := map[string][]string{}
	add := func(path, text string) { texts[path] = append(texts[path], text) }
	for key, value := range d.Environment {
		add("environment."+key, value)
	}
	for name, v := range d.Volumes {
		add("volumes."+name, name)
		add("volumes."+name+".version", v.Version)
	}
	for name, s := range d.MCPServers {
		for key, value := range s.Headers {
			add("mcpServers."+name+".headers."+key, value)
		}
		for key, value := range s.Env {
			add("mcpServers."+name+".env."+key, value)
		}
	}
	return texts
}

// references appends an error for each "${{" that does not begin a valid reference.
func (l *errorList) references(d *stint.Definition) {
	texts := interpolated(d)
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		for _, text := range texts[path] {
			l.textReferences(path, text)
		}
	}
}

func (l *errorList) textReferences(path, text string) {
	for _, at := range opening.FindAllStringIndex(text, -1) {
		if at[1]-at[0] == len("$${{") {
			continue
		}
		rest := text[at[0]:]
		if m := reference.FindStringIndex(rest); m != nil && m[0] == 0 {
			continue
		}
		inner, _, closed := strings.Cut(rest[len("${{"):], "}}")
		if !closed || strings.Contains(inner, "${{") {
			l.invalid(path, "'%s' contains '${{' without '}}'. Close it, or write '$${{' for a literal '${{'.", path)
			continue
		}
		l.invalid(path, "'%s' contains '${{%s}}', which is not a reference.%s Use ${{ vars.NAME }} or ${{ secrets.NAME }}, or write '$${{' for a literal '${{'.",
			path, stint.Excerpt(inner, 64), referenceHint(inner))
	}
}

// referenceHint returns a sentence with the reference that inner most likely means, or "".
func referenceHint(inner string) string {
	source, name, ok := strings.Cut(strings.TrimSpace(inner), ".")
	near := spelling.Nearest(source, []string{FromVariables, FromSecrets, "variables"})
	if near == "variables" {
		near = FromVariables
	}
	if !ok || near == "" || stint.CheckVariable("", name) != nil {
		return ""
	}
	return " Did you mean '${{ " + near + "." + name + " }}'?"
}
