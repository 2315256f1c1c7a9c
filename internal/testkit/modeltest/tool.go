package modeltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// tool is one that a client declared.
type tool struct {
	space string // Codex keeps the tools of an MCP server in a namespace
	name  string
	form  *schema // of its arguments
}

// full is the tool's name with its namespace, as other clients write it.
func (t tool) full() string {
	if t.space == "" {
		return t.name
	}
	return strings.TrimSuffix(t.space, "__") + "__" + t.name
}

// call is one call of a tool.
type call struct {
	id   string
	tool tool
	args json.RawMessage
}

// shells are the names of shell tools, most wanted first.
var shells = []string{"bash", "exec_command", "shell_command", "shell", "run_shell_command", "run_command", "run_commands", "execute_command", "local_shell"}

// commandFields are the names under which they take a command.
var commandFields = []string{"command", "cmd", "commands", "script"}

// shell finds the client's shell tool and the arguments that make it run a
// command: as one string, in a list of commands, or as a program's arguments.
func shell(tools []tool, command string) (call, error) {
	for _, name := range shells {
		for _, t := range tools {
			if t.space != "" || !strings.EqualFold(t.name, name) {
				continue
			}
			for _, field := range commandFields {
				if form := t.form.property(field); form != nil {
					return call{tool: t, args: t.form.fill(map[string]any{field: form.command(field, command)})}, nil
				}
			}
		}
	}
	return call{}, fmt.Errorf("no shell tool among %s", names(tools))
}

func (s *schema) command(field, command string) any {
	switch {
	case s.kind() != "array":
		return command
	case field == "commands":
		return []string{command}
	}
	return []string{"bash", "-lc", command}
}

// named finds a tool by its name, or by the end of its name: what an MCP
// server calls run_agent is mcp__stint__run_agent to one client and
// stint_run_agent to another.
func named(tools []tool, name string) (tool, error) {
	var ends []tool
	for _, t := range tools {
		if t.full() == name || t.name == name {
			return t, nil
		}
		if strings.HasSuffix(t.full(), "_"+name) {
			ends = append(ends, t)
		}
	}
	if len(ends) == 0 {
		return tool{}, fmt.Errorf("no tool %s among %s", name, names(tools))
	}
	return slices.MinFunc(ends, func(a, b tool) int { return cmp.Compare(len(a.full()), len(b.full())) }), nil
}

func names(tools []tool) string {
	all := make([]string, len(tools))
	for i, t := range tools {
		all[i] = t.full()
	}
	return fmt.Sprint(all)
}
