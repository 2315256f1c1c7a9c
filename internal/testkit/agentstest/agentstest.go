// Package agentstest answers: where are the real agents that tests drive?
//
// They are what e2e/agents pins, installed by `make deps` into a folder outside
// the repository. Each function gives the paths of one and fails the test where
// it is missing.
package agentstest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// Claude is the path of Claude Code's program.
func Claude(t testing.TB) string {
	t.Helper()
	return installed(t, "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
}

// Codex is the path of Codex's program, which is linked statically.
func Codex(t testing.TB) string {
	t.Helper()
	return installed(t, "node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
}

// ACP is the path of a script for node that speaks the Agent Client Protocol
// and drives the Claude Code that the variable CLAUDE_CODE_EXECUTABLE names.
// What it imports lies below Folder.
func ACP(t testing.TB) string {
	t.Helper()
	return installed(t, "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js")
}

// Folder is where all of them lie.
func Folder(t testing.TB) string {
	t.Helper()
	return installed(t, ".")
}

func installed(t testing.TB, name string) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(repository(t), "e2e/agents/package-lock.json"))
	if err != nil {
		t.Fatalf("read what agents are pinned: %v", err)
	}
	sum := sha256.Sum256(lock)
	path := filepath.Join(base(t), hex.EncodeToString(sum[:])[:16], name) // as tools/agents.sh names it
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("This test drives a real agent that is not installed: %v. Run make deps.", err)
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
		t.Fatalf("find the folder of caches: %v", err)
	}
	return filepath.Join(cache, "stint/agents")
}

// repository is the folder of the module: the first one up from the test's that
// has a go.mod.
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
			t.Fatal("The test does not run inside the repository.")
		}
		dir = filepath.Dir(dir)
	}
}
