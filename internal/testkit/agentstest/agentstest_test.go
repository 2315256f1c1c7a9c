package agentstest_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/testkit/agentstest"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

func TestInstalledVersions(t *testing.T) {
	t.Parallel()
	requirement.Programs(t, "node")
	for want, argv := range map[string][]string{
		"2.1.197 (Claude Code)": {agentstest.Claude(t), "--version"},
		"codex-cli 0.169.0":     {agentstest.Codex(t), "--version"},
		"":                      {"node", "--check", agentstest.ACP(t)},
	} {
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir())
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s printed %q, %v; want %q", filepath.Base(argv[0]), got, err, want)
		}
	}
	if rel, err := filepath.Rel(agentstest.Folder(t), agentstest.ACP(t)); err != nil || strings.HasPrefix(rel, "..") {
		t.Errorf("the ACP agent is outside the folder: %s, %v", rel, err)
	}
}
