package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGraph(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		versions string // newest first, each with its parent behind a slash
		current  string
		want     string
	}{
		"one":     {"1", "1", "● 1\n"},
		"line":    {"3/2 2/1 1", "2", "○ 3\n● 2\n○ 1\n"},
		"fork":    {"3/1 2/1 1", "3", "● 3\n│ ○ 2\n├─╯\n○ 1\n"},
		"forks":   {"4/1 3/1 2/1 1", "4", "● 4\n│ ○ 3\n│ │ ○ 2\n├─┴─╯\n○ 1\n"},
		"crossed": {"6/3 5/2 4/3 3/1 2/1 1", "6", "● 6\n│ ○ 5\n│ │ ○ 4\n├─┼─╯\n○ │ 3\n│ ○ 2\n├─╯\n○ 1\n"},
		"roots":   {"4/2 3/1 2 1", "4", "● 4\n│ ○ 3\n○ │ 2\n  ○ 1\n"},
		"free":    {"6/4 5/2 4 3/2 2/1 1", "6", "● 6\n│ ○ 5\n○ │ 4\n○ │ 3\n├─╯\n○ 2\n○ 1\n"},
	} {
		var g graph
		var b strings.Builder
		for v := range strings.FieldsSeq(c.versions) {
			id, parent, _ := strings.Cut(v, "/")
			if joined := g.join(id); joined != "" {
				b.WriteString(joined + "\n")
			}
			b.WriteString(g.version(id, parent, id == c.current) + " " + id + "\n")
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
