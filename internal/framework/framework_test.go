package framework_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

func TestPrepare(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		definition stint.Definition
		want       framework.Plan
	}{
		"shell":   {stint.Definition{Framework: "shell"}, framework.Plan{Argv: []string{"/bin/bash", "/run/p"}}},
		"command": {stint.Definition{Framework: "command", Command: []string{"cat", "-"}}, framework.Plan{Argv: []string{"cat", "-"}, Stdin: []byte("do it")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := map[string]framework.Framework{"shell": framework.Shell{}, "command": framework.Command{}}[name]
			got, err := f.Prepare(framework.Input{Definition: &tt.definition, Prompt: "do it", PromptPath: "/run/p"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzText checks that the decoded text does not depend on the sizes of the writes,
// and that valid UTF-8 is returned unchanged.
func FuzzText(f *testing.F) {
	f.Add([]byte("héllo\nwörld 🦊"), uint8(3))
	f.Add([]byte("\xff\xfe\xf0\x9f"), uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		read := func(n int) string {
			d := framework.Shell{}.NewDecoder(framework.Input{})
			var b strings.Builder
			for rest := p; len(rest) > 0; rest = rest[min(n, len(rest)):] {
				for _, o := range d.Write(framework.Stdout, rest[:min(n, len(rest))]).Events {
					b.WriteString(o.Content)
				}
			}
			for _, o := range d.Flush(framework.Stdout).Events {
				b.WriteString(o.Content)
			}
			return b.String()
		}
		whole, parts := read(max(1, len(p))), read(int(step)+1)
		if isUTF8 := strings.ToValidUTF8(string(p), "") == string(p); isUTF8 && whole != string(p) {
			t.Errorf("text changed: %q became %q", p, whole)
		}
		if strings.ReplaceAll(whole, "\uFFFD", "") != strings.ReplaceAll(parts, "\uFFFD", "") {
			t.Errorf("chunks of %d bytes read %q, whole %q", int(step)+1, parts, whole)
		}
	})
}

func TestVerdictFollowsExitCode(t *testing.T) {
	t.Parallel()
	if v := verdict(0); !v.Completed {
		t.Error("exit code 0 is not a success")
	}
	if v := verdict(3); v.Completed || !strings.Contains(v.Message, "3") {
		t.Errorf("exit 3 gives %+v", v)
	}
}

func verdict(code int) framework.Verdict {
	return framework.Shell{}.NewDecoder(framework.Input{}).Verdict(code)
}
