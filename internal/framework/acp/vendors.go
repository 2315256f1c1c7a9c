package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/framework"
)

// vendor is what is known of one maker's agent beyond the protocol: variables
// that keep it to its work, and where it keeps conversations.
type vendor struct {
	name  string // part of its command's name
	env   map[string]string
	state framework.State
}

var vendors = []vendor{
	{
		name: "claude",
		env: map[string]string{
			"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
			"CLAUDE_CODE_MAX_RETRIES": "6", "MCP_CONNECTION_NONBLOCKING": "0", // as package claudecode has them
		},
		state: framework.State{Keep: []string{".claude/projects"}, Check: checkLines},
	},
	{
		name:  "gemini",
		env:   map[string]string{"GEMINI_CLI_NO_RELAUNCH": "true"},
		state: framework.State{Keep: []string{".gemini/tmp", ".gemini/projects.json"}, Check: checkLines},
	},
	{
		name: "opencode",
		env: map[string]string{
			"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
		},
		state: framework.State{Keep: []string{".local/share/opencode"}, Drop: []string{".local/share/opencode/log", ".local/share/opencode/bin"}},
	},
}

// unknownVendor keeps its conversation where it likes: all of its home folder
// but what can be fetched or made again.
var unknownVendor = vendor{state: framework.State{Drop: []string{
	".cache", ".npm", ".bun/install/cache", ".config/*/Cache", ".config/*/Code Cache", ".config/*/GPUCache", ".local/share/*/log",
}}}

// runners start what their arguments name.
var runners = []string{"node", "npx", "bun", "bunx", "deno", "env", "python", "python3", "uvx", "uv", "sh", "bash"}

// vendorOf finds whose agent a command starts.
func vendorOf(command []string) vendor {
	words := []string{path.Base(command[0])}
	if slices.Contains(runners, words[0]) {
		words = command[1:]
	}
	for _, word := range words {
		for _, p := range vendors {
			if !strings.HasPrefix(word, "-") && strings.Contains(strings.ToLower(word), p.name) {
				return p
			}
		}
	}
	return unknownVendor
}

// checkLines finds the line of a transcript that is no JSON.
func checkLines(name string, content []byte) error {
	if path.Ext(name) != ".jsonl" {
		return nil
	}
	n := 0
	for line := range bytes.Lines(content) {
		if n++; len(bytes.TrimSpace(line)) > 0 && !json.Valid(line) {
			return fmt.Errorf("line %d is no JSON", n)
		}
	}
	return nil
}
