package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/stint-dev/stint"
)

// definitionFile is the default name of the file that contains a definition.
const definitionFile = "stint.yaml"

// definitionSource is a definition with its file.
type definitionSource struct {
	members map[string]any
	file    string // as it is shown to the user
	root    ast.Node
}

// readDefinition reads an agent's definition from a YAML file. If path is a
// directory, it reads the file stint.yaml in it. The keys are not validated here,
// because the server validates them.
func readDefinition(path string) (*definitionSource, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, definitionFile)
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s: write one with 'stint init', or name another file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	source, err := parseDefinition(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	source.file = path
	return source, readInstructions(filepath.Dir(path), source.members)
}

// parseDefinition parses YAML, which includes JSON. It refuses duplicate keys. It
// also refuses anchors and aliases, because aliases can expand a small file without
// limit.
func parseDefinition(content []byte) (*definitionSource, error) {
	if len(content) > stint.MaxDefinitionBytes {
		return nil, fmt.Errorf("a definition may have %d bytes at most", stint.MaxDefinitionBytes)
	}
	file, err := parser.ParseBytes(content, 0)
	if err != nil {
		return nil, yamlError(err)
	}
	var documents []ast.Node
	for _, document := range file.Docs {
		if document.Body != nil {
			documents = append(documents, document.Body)
		}
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("it holds %d YAML documents instead of one", len(documents))
	}
	var found aliases
	ast.Walk(&found, documents[0])
	if found > 0 {
		return nil, errors.New("anchors (&) and aliases (*) are not supported: write the values out")
	}
	var value any
	if err := yaml.NodeToValue(documents[0], &value); err != nil {
		return nil, yamlError(err)
	}
	members, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a YAML map with keys such as 'name' and 'framework'")
	}
	return &definitionSource{members: members, root: documents[0]}, nil
}

func yamlError(err error) error {
	return fmt.Errorf("it is not valid YAML:\n%s", strings.TrimRight(yaml.FormatError(err, false, true), "\n"))
}

// aliases is an ast.Visitor that counts anchors, aliases, and merge keys.
type aliases int

// Visit implements ast.Visitor.
func (n *aliases) Visit(node ast.Node) ast.Visitor {
	switch node.Type() {
	case ast.AnchorType, ast.AliasType, ast.MergeKeyType:
		*n++
	}
	return n
}

// readInstructions replaces the value of 'instructions' by the content of a file, if
// the value is the path of a file in dir. Otherwise the value is the text itself.
func readInstructions(dir string, definition map[string]any) error {
	name, ok := definition["instructions"].(string)
	if !ok || !filepath.IsLocal(name) || strings.ContainsAny(name, "\n\x00") || len(name) > 255 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("read the instructions: %w", err)
	}
	defer func() { _ = root.Close() }() // opened for reading
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // not the name of a file, but the text itself
	}
	if info.Size() > stint.MaxDefinitionBytes {
		return fmt.Errorf("the instructions in %s have more than %d bytes", name, stint.MaxDefinitionBytes)
	}
	text, err := root.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the instructions: %w", err)
	}
	definition["instructions"] = string(text)
	return nil
}

func encodeDefinition(definition map[string]any) (json.RawMessage, error) {
	raw, err := json.Marshal(definition)
	if err != nil {
		return nil, fmt.Errorf("the definition cannot be written as JSON: %w", err)
	}
	return raw, nil
}
