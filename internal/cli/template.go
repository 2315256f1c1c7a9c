package cli

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// templates contains a folder for each template of the command "init". A template has a
// definition, and a README whose first code block contains the commands to enter first.
//
//go:embed templates
var templates embed.FS

// agentName stands for the agent's name in the files of templates.
const agentName = "AGENT_NAME"

// template contains the files of a template, sorted by path.
type template []templateFile

type templateFile struct{ path, content string }

// templateNames returns the sorted names of the templates.
func templateNames() []string {
	dirs, _ := templates.ReadDir("templates") // reading embedded files does not fail
	names := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		names = append(names, dir.Name())
	}
	return names
}

// newTemplate returns the files of a template for an agent with the given name. If
// kind is empty, it returns only the definition of the template shell.
func newTemplate(kind, name string) (template, error) {
	files, err := fs.Sub(templates, path.Join("templates", cmp.Or(kind, "shell")))
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	var t template
	err = fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || kind == "" && file != definitionFile {
			return err
		}
		content, err := fs.ReadFile(files, file)
		if err != nil {
			return fmt.Errorf("read the template: %w", err)
		}
		written := name
		if file == definitionFile {
			written = yamlText(name)
		}
		t = append(t, templateFile{file, strings.ReplaceAll(string(content), agentName, written)})
		return nil
	})
	return t, err
}

// yamlText returns a name as YAML text. It is quoted if YAML would read another value,
// such as a number.
func yamlText(name string) string {
	var value any
	if err := yaml.Unmarshal([]byte(name), &value); err != nil || value != any(name) {
		return strconv.Quote(name)
	}
	return name
}

func (t template) paths() []string {
	paths := make([]string, 0, len(t))
	for _, f := range t {
		paths = append(paths, f.path)
	}
	return paths
}

// commands returns the lines of the first code block of the README.
func (t template) commands() []string {
	for _, f := range t {
		if f.path == "README.md" {
			_, rest, _ := strings.Cut(f.content, "```sh\n")
			block, _, _ := strings.Cut(rest, "\n```")
			return strings.Split(block, "\n")
		}
	}
	return nil
}
