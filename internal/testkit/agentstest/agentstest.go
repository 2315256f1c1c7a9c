// Package agentstest returns the paths of programs of real agents, such as Claude
// Code, for tests that run them.
//
// e2e/agents/package-lock.json pins the agents. `make deps` installs them in a
// folder outside the repository. Each function skips the test if the agent is not
// installed.
package agentstest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// Claude returns the path of the Claude Code program.
func Claude(t testing.TB) string {
	t.Helper()
	return installed(t, "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
}

// Codex returns the path of the Codex program, which is statically linked.
func Codex(t testing.TB) string {
	t.Helper()
	return installed(t, "node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
}

// ACP returns the path of a Node.js script that implements the Agent Client Protocol
// by running the Claude Code program at the path in the environment variable
// CLAUDE_CODE_EXECUTABLE. The script imports modules from Folder.
func ACP(t testing.TB) string {
	t.Helper()
	return installed(t, "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js")
}

// Folder returns the folder in which all agents are installed.
func Folder(t testing.TB) string {
	t.Helper()
	return installed(t, ".")
}

func installed(t testing.TB, name string) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(repository(t), "e2e/agents/package-lock.json"))
	if err != nil {
		t.Fatalf("reading the pinned agents: %v", err)
	}
	sum := sha256.Sum256(lock)
	path := filepath.Join(base(t), hex.EncodeToString(sum[:])[:16], name) // tools/agents.sh computes the same name of the folder
	if _, err := os.Stat(path); err != nil {
		requirement.Skip(t, "the agents are not installed (make deps)")
	}
	return path
}

func base(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("STINT_AGENTS_DIR"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("finding the cache folder: %v", err)
	}
	return filepath.Join(cache, "stint/agents")
}

// repository returns the root folder of the module: the first folder with a go.mod
// among the working directory and its parents.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test does not run inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}
