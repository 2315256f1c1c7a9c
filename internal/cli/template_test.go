package cli_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
)

// The definition of each template is valid, and its README and other files contain no
// placeholder.
func TestTemplates(t *testing.T) {
	t.Parallel()
	frameworks := map[string]string{
		"acp": "acp", "assistant": "assistant", "claude-code": "claude-code", "codex": "codex", "python": "command", "shell": "shell",
	}
	folders, err := filepath.Glob("templates/*")
	must(t, err)
	for i := range folders {
		folders[i] = filepath.Base(folders[i])
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(frameworks)), folders); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
	for template, framework := range frameworks {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			p := startCLI(t, http.NotFoundHandler())
			p.start("init", "--template", template, "1e3")
			if code := p.exit(t); code != 0 {
				t.Fatalf("exit code %d: %s", code, p.err)
			}
			dir := filepath.Join(p.env.Dir, "1e3")
			if d := parsed(t, filepath.Join(dir, "stint.yaml")); d.Name != "1e3" || d.Framework != framework {
				t.Errorf("the definition has the name %q and the framework %q", d.Name, d.Framework)
			}
			readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
			must(t, err)
			if !strings.HasPrefix(string(readme), "# 1e3\n") || !strings.Contains(string(readme), "\nstint agent push\n") {
				t.Errorf("README.md:\n%s", readme)
			}
			must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				content, err := os.ReadFile(path)
				if strings.Contains(string(content), "AGENT_NAME") {
					t.Errorf("%s contains the placeholder of the name", path)
				}
				return err
			}))
		})
	}
}

// parsed returns the definition in a YAML file.
func parsed(t *testing.T, file string) *stint.Definition {
	t.Helper()
	raw, err := os.ReadFile(file)
	must(t, err)
	var tree any
	must(t, yaml.Unmarshal(raw, &tree))
	body, err := json.Marshal(tree)
	must(t, err)
	d, err := definition.Parse(body)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
