package engine

import (
	"fmt"
	"maps"

	"github.com/stint-dev/stint"
)

// offers refuses a definition that asks for what this worker cannot give. To
// go on without it would be weaker than what was asked for.
func (j *job) offers() error {
	d := &j.a.Spec.Definition
	driver := j.e.c.Driver.Name()
	switch {
	case d.Sandbox != "" && d.Sandbox != "default" && d.Sandbox != driver:
		return notOffered("sandbox", "The agent asks for the sandbox '%s', but this server offers '%s' only. Change 'sandbox' in the agent's definition, or ask the operator.", d.Sandbox, driver)
	case d.Image != "" && d.Image != "host":
		return notOffered("image", "The agent asks for the image '%s', but this server offers 'host' only. Leave 'image' out of the agent's definition.", d.Image)
	case d.Placement != nil && len(d.Placement.Labels) > 0:
		return notOffered("placement.labels", "The agent asks for a worker with labels, but the workers of this server have none. Leave 'placement' out of the agent's definition.")
	case d.Output != nil && len(d.Output.Schema) > 0:
		return notOffered("output.schema", "The agent asks for a structured result, which the framework '%s' does not give. Leave 'output' out of the agent's definition.", d.Framework)
	}
	if n := d.Network; n != nil && n.Mode != "" && n.Mode != "none" {
		j.record.system("warn", fmt.Sprintf("The agent asks for the network mode '%s', but sandboxes of this server have no network.", n.Mode), nil)
	}
	return nil
}

func notOffered(param, format string, args ...any) *stint.Error {
	return stint.InvalidParam(param, format, args...)
}

// visibleSecrets are the secrets as the agent sees them: of a brokered one, a
// placeholder, since its value is for the named hosts alone.
func (j *job) visibleSecrets(secrets map[string]string) map[string]string {
	brokered := j.a.Spec.Definition.Secrets
	if len(brokered) == 0 {
		return secrets
	}
	visible := maps.Clone(secrets)
	for name := range brokered {
		if _, ok := visible[name]; ok {
			visible[name] = "stint-brokered-" + name
		}
	}
	return visible
}
