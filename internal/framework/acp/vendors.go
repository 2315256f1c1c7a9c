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

// vendor has settings for a known agent: environment variables, and the files in
// the home directory that contain its conversations.
type vendor struct {
	name  string // substring of a word of the command, by which the agent is recognised
	env   map[string]string
	state framework.State
}

var vendors = []vendor{
	{
		name: "claude",
		env: map[string]string{
			"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
			"CLAUDE_CODE_MAX_RETRIES": "6", "MCP_CONNECTION_NONBLOCKING": "0", // as in package claudecode
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

// unknownVendor has the settings for any other agent: the whole home directory is
// kept, except for caches and logs.
var unknownVendor = vendor{state: framework.State{Drop: []string{
	".cache", ".npm", ".bun/install/cache", ".config/*/Cache", ".config/*/Code Cache", ".config/*/GPUCache", ".local/share/*/log",
}}}

// runners are programs that start another program, which their arguments name.
var runners = []string{"node", "npx", "bun", "bunx", "deno", "env", "python", "python3", "uvx", "uv", "sh", "bash"}

// vendorOf returns the vendor of the agent that a command starts.
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

// checkLines returns an error if a line of a .jsonl file is not JSON. It accepts
// all other files.
func checkLines(name string, content []byte) error {
	if path.Ext(name) != ".jsonl" {
		return nil
	}
	n := 0
	for line := range bytes.Lines(content) {
		if n++; len(bytes.TrimSpace(line)) > 0 && !json.Valid(line) {
			return fmt.Errorf("line %d is not JSON", n)
		}
	}
	return nil
}
