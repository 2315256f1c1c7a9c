package modeltest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

var update = flag.Bool("update", false, "write testdata")

// TestGolden compares the responses in each dialect with the files in testdata, byte by
// byte. The flag -update writes these files.
func TestGolden(t *testing.T) {
	t.Parallel()
	scenarios := []struct {
		name  string
		turns []turn
	}{
		{"hello", []turn{{user: "hello"}}},
		{"shell", []turn{{user: "[[run: echo hi]] [[usage: in=100,out=20,cacheRead=40,cacheWrite=10,reasoning=5]]"}}},
		{"result", []turn{{user: "one"}, {user: "[[run: echo hi]]"}, {tool: "hi \"you\"\n"}}},
		{"tool of a server", []turn{{user: `[[run: echo hi]] [[tool: run_agent {"name":"a"}]]`}, {tool: "hi"}}},
		{"thinking in pieces", []turn{{user: "[[think: hm]] [[say: twelve words]] [[slow: 3]]"}}},
		{"refused", []turn{{user: "[[http: 429]]"}}},
	}
	for _, dialect := range allDialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			s := modeltest.StartWith(t, modeltest.Options{Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
			var b strings.Builder
			for _, scenario := range scenarios {
				for _, stream := range []bool{true, false} {
					code, answer := ask(t, s.URL, dialect, stream, scenario.turns...)
					fmt.Fprintf(&b, "== %s, stream %t: %d\n%s\n", scenario.name, stream, code, answer)
				}
			}
			hold(t, filepath.Join("testdata", dialect+".golden"), b.String())
		})
	}
}

func hold(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}
