package stint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestErrorDocs checks that docs/errors.md has a section for each error code and each
// status reason, and a row for each reason why a run waits. The heading of a section is
// the code alone, because docUrl links to it.
func TestErrorDocs(t *testing.T) {
	page, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, prefix, before, after string }{
		{"error.go", "Code", "\n### ", "\n"},
		{"run.go", "Reason", "\n### ", "\n"},
		{"queue.go", "Queue", "\n| `", "` |"},
	} {
		values := constants(t, c.file, c.prefix)
		if len(values) < 9 {
			t.Errorf("%s: %d constants begin with %s, want at least 9", c.file, len(values), c.prefix)
		}
		for _, v := range values {
			if !strings.Contains(string(page), c.before+v+c.after) {
				t.Errorf("docs/errors.md does not contain %q", c.before+v+c.after)
			}
		}
	}
}

// constants returns the values of the string constants in file whose names begin with
// prefix.
func constants(t *testing.T, file, prefix string) (values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) == 0 {
			return true
		}
		if text, ok := spec.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
			if v, err := strconv.Unquote(text.Value); err == nil {
				values = append(values, v)
			}
		}
		return true
	})
	return values
}
