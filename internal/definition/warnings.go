package definition

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
)

// Warnings returns a warning for each setting of a valid definition that is accepted but
// probably not what its author means.
func Warnings(d *stint.Definition) []stint.Warning {
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
