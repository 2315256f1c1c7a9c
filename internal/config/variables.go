package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/spelling"
)

const variablePrefix = "STINT_"

// otherVariables contains the environment variables that are not settings: those of the
// client, and those that Stint sets for agents.
var otherVariables = []string{"STINT_TOKEN", "STINT_URL", "STINT_CONTEXT", "STINT_MODEL_KEY", "STINT_PROMPT_FILE", "STINT_RUN_ID", "STINT_SESSION_ID"}

// foreign matches variables that Stint's tests and the programs of frameworks use.
var foreign = regexp.MustCompile(`^STINT_(.*_BIN|TEST_.*|SANDBOXTEST_.*)$`)

// UnknownVariables returns a sentence for each STINT_ variable in environ that has a
// value but that Stint does not know. environ has the form of os.Environ.
func UnknownVariables(environ []string) []string {
	known := slices.Clone(otherVariables)
	for _, s := range slices.Concat(Settings(), removed) {
		known = append(known, s.Env())
	}
	var out []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if value == "" || !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) || foreign.MatchString(name) {
			continue
		}
		out = append(out, fmt.Sprintf("the environment variable %s is unknown and has no effect.%s", name, variableHint(name, known)))
	}
	slices.Sort(out)
	return out
}

// variableHint returns a sentence with the variable that name most likely means, or "".
func variableHint(name string, known []string) string {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = strings.TrimPrefix(k, variablePrefix)
	}
	if near := spelling.Nearest(strings.TrimPrefix(name, variablePrefix), words); near != "" {
		return " Did you mean " + variablePrefix + near + "?"
	}
	return ""
}
