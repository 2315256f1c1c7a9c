package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHelp compares the help of every command with a golden file.
func TestHelp(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	var visit func(path ...string)
	visit = func(path ...string) {
		fmt.Fprintf(&got, "$ stint %s\n%s\n", strings.Join(append(path, "--help"), " "), ask(t, append(path, "--help")...))
		for line := range strings.Lines(ask(t, append(append([]string{"__complete"}, path...), "")...)) {
			name, _, isCommand := strings.Cut(line, "\t")
			if isCommand && !strings.HasPrefix(name, ":") && name != "help" && name != "completion" {
				visit(append(append([]string{}, path...), name)...)
			}
		}
	}
	visit()
	const golden = "testdata/help.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run with -update when this is meant (-want +got):\n%s", diff)
	}
}

// ask runs a command that needs no server, and returns its standard output.
func ask(t *testing.T, args ...string) string {
	t.Helper()
	p := startCLI(t, http.NotFoundHandler())
	p.start(args...)
	if code := p.exit(t); code != 0 {
		t.Fatalf("%v: exit code %d:\n%s", args, code, p.err)
	}
	return p.out.String()
}
