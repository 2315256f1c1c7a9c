package requirement_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// recorder is a testing.TB that records whether the test was skipped or failed.
type recorder struct {
	testing.TB
	outcome string
}

type stopped struct{}

func (r *recorder) Name() string { return "TestName" }
func (r *recorder) Helper()      {}
func (r *recorder) Skip(...any)  { r.outcome = "skipped"; panic(stopped{}) }
func (r *recorder) Fatal(...any) { r.outcome = "failed"; panic(stopped{}) }

// outcomeOf calls f with a recorder and returns "passed", "skipped", or "failed".
func outcomeOf(t *testing.T, f func(testing.TB)) (outcome string) {
	r := &recorder{TB: t, outcome: "passed"}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(stopped); !ok {
				panic(p)
			}
			outcome = r.outcome
		}
	}()
	f(r)
	return r.outcome
}

func TestSkip(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	t.Setenv(requirement.EnvSkips, file)
	missing := func(t testing.TB) { requirement.Programs(t, "sh", "no-such-program") }
	t.Setenv(requirement.EnvAll, "1")
	if got := outcomeOf(t, missing); got != "failed" {
		t.Errorf("with %s=1 the test %s", requirement.EnvAll, got)
	}
	t.Setenv(requirement.EnvAll, "")
	if got := outcomeOf(t, missing); got != "skipped" {
		t.Errorf("the test %s", got)
	}
	if got := outcomeOf(t, func(t testing.TB) { requirement.Programs(t, "sh") }); got != "passed" {
		t.Errorf("with the program the test %s", got)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("TestName: no-such-program is not installed (make deps)\n", afterPackage(string(b))); diff != "" {
		t.Errorf("recorded skips (-want +got):\n%s", diff)
	}
}

// afterPackage returns the line without the path of the package, because the path
// depends on the way in which the test was built.
func afterPackage(line string) string {
	_, rest, _ := strings.Cut(line, " ")
	return rest
}

func TestSkipPackage(t *testing.T) {
	t.Setenv(requirement.EnvSkips, "")
	for all, want := range map[string]int{"": 0, "1": 1} {
		t.Setenv(requirement.EnvAll, all)
		if got := requirement.SkipPackage("a test of this function"); got != want {
			t.Errorf("with %s=%q the exit status is %d, want %d", requirement.EnvAll, all, got, want)
		}
	}
}
