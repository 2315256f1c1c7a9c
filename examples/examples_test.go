package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/stint-dev/stint/internal/definition"
)

// Each example is a valid definition. The file of its instructions exists, and the
// README lists its folder.
func TestExamplesAreDefinitions(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d definitions: %v", len(files), err)
	}
	frameworks, names := map[string]bool{}, map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := yaml.Unmarshal(raw, &tree); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		body, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		d, err := definition.Parse(body)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		frameworks[d.Framework] = true
		if other := names[d.Name]; other != "" || d.Name == "" {
			t.Errorf("%s: the name '%s' is that of '%s'", file, d.Name, other)
		}
		names[d.Name] = file
		if !strings.Contains(string(raw), "stint run "+d.Name+" ") {
			t.Errorf("%s does not say how to run %s", file, d.Name)
		}
		if d.Instructions != "" {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), d.Instructions)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if dir := filepath.Dir(file); !strings.Contains(string(readme), "("+dir+")") {
			t.Errorf("README.md does not tell of %s", dir)
		}
	}
	for _, name := range []string{"shell", "command", "assistant", "claude-code", "codex", "acp"} {
		if !frameworks[name] {
			t.Errorf("there is no example of the framework %s", name)
		}
	}
}
