package modeltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// tool is a tool that a client declared.
type tool struct {
	space string // namespace, which Codex uses for the tools of an MCP server
	name  string
	form  *schema // schema of the arguments
}

// full returns the namespace and the name, joined by two underscores as in the tool names
// of clients that do not use namespaces.
func (t tool) full() string {
	if t.space == "" {
		return t.name
	}
	return strings.TrimSuffix(t.space, "__") + "__" + t.name
}

// call is a call of a tool.
type call struct {
	id   string
	tool tool
	args json.RawMessage
}

// shells are the names of shell tools in order of preference.
var shells = []string{"bash", "exec_command", "shell_command", "shell", "run_shell_command", "run_command", "run_commands", "execute_command", "local_shell"}

// commandFields are the names of a shell tool's argument for the command, in order of
// preference.
var commandFields = []string{"command", "cmd", "commands", "script"}

// shell returns a call of the client's shell tool that runs a command. Depending on the
// tool, its argument is the command, a list of commands, or the arguments of Bash. If the
// client did not declare a shell tool, shell returns an error.
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
	return call{}, fmt.Errorf("%s do not include a shell tool", names(tools))
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

// named returns the tool with the given name. If there is none, it returns the tool with
// the shortest name that ends with _ and the given name, because clients add prefixes: the
// tool run_agent of an MCP server is called mcp__stint__run_agent or stint_run_agent.
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
		return tool{}, fmt.Errorf("the tool %s is not declared; declared: %s", name, names(tools))
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
