package definition

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// Warnings returns a warning for each setting of a valid definition that is accepted but
// probably not what its author means.
func Warnings(d *stint.Definition) []stint.Warning {
	return append(plainReferences(d), ignored(d)...)
}

// ignored returns a warning for each key that has no effect beside the others.
func ignored(d *stint.Definition) []stint.Warning {
	script := d.Framework == catalog.Shell.Name || d.Framework == catalog.Command.Name
	offline := d.Framework == catalog.Assistant.Name && catalog.ModelURL(d) == ""
	framework, _ := catalog.Find(d.Framework)
	var out []stint.Warning
	add := func(given bool, param, why string) {
		if given {
			out = append(out, stint.Warning{Param: param, Message: fmt.Sprintf("'%s' has no effect: %s", param, why)})
		}
	}
	add(len(d.Command) > 0 && !framework.NeedsCommand, "command",
		fmt.Sprintf("the framework '%s' starts its own program. Remove it, or use the framework 'command'.", d.Framework))
	add(d.Instructions != "" && script, "instructions", fmt.Sprintf("the framework '%s' receives only the prompt. Remove it.", d.Framework))
	add(d.Model != "" && script, "model", fmt.Sprintf("the framework '%s' uses no model of Stint. Remove it.", d.Framework))
	add(d.Model != "" && offline, "model", "the assistant works offline without a provider. Remove it, or add 'provider'.")
	if n := d.Network; n != nil {
		add(n.Mode == "none" && len(n.Allow) > 0, "network.allow", "'network.mode' is none. Remove it, or use the mode 'restricted'.")
	}
	return out
}

// plainReferences returns a warning for each reference where none is replaced.
func plainReferences(d *stint.Definition) []stint.Warning {
	plain := map[string]string{"model": d.Model, "image": d.Image, "artifact.path": d.ArtifactPath()}
	for i, word := range d.Command {
		plain[fmt.Sprintf("command[%d]", i)] = word
	}
	if d.Provider != nil {
		plain["provider.baseUrl"] = d.Provider.BaseURL
	}
	for name, v := range d.Volumes {
		plain["volumes."+name+".path"] = v.Path
	}
	for name, s := range d.MCPServers {
		plain["mcpServers."+name+".url"] = s.URL
		for i, word := range s.Command {
			plain[fmt.Sprintf("mcpServers.%s.command[%d]", name, i)] = word
		}
	}
	var out []stint.Warning
	for _, param := range slices.Sorted(maps.Keys(plain)) {
		if len(References(plain[param])) > 0 {
			out = append(out, stint.Warning{Param: param, Message: fmt.Sprintf(
				"References are not replaced in '%s': the text is used as it is. Put the reference into 'environment' and read the variable instead.", param)})
		}
	}
	return out
}
