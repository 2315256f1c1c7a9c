package agents

import (
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/jsonschema"
)

// Offer is the result of a check of a valid definition: the settings that the
// installation cannot serve, and those that it cannot serve at present.
type Offer struct {
	Errors   []*stint.Error
	Warnings []stint.Warning
}

// Add adds err to the errors if it is a *stint.Error. It returns any other error.
func (o *Offer) Add(err error) error {
	e, ok := errors.AsType[*stint.Error](err)
	if ok {
		o.Errors = append(o.Errors, e)
		return nil
	}
	return err
}

// checkFramework returns an error for each setting of d that its framework does not
// support. Such a definition is refused when it is stored, not at its first run. The
// result is empty if d has no valid framework. Elements can be nil.
func checkFramework(d *stint.Definition) []*stint.Error {
	f, err := registry.Find(d)
	if err != nil {
		return nil // reported by the validation of the definition
	}
	errs := []*stint.Error{checkMCPServers(d, f.Info()), definition.CheckCost(d), checkSchema(d)}
	if e, ok := errors.AsType[*stint.Error](f.Check(d)); ok {
		return append([]*stint.Error{e}, errs...)
	}
	return errs
}

func checkMCPServers(d *stint.Definition, info framework.Info) *stint.Error {
	if len(d.MCPServers) == 0 || info.Capabilities.MCP {
		return nil
	}
	return stint.InvalidParam("mcpServers", "The framework '%s' cannot use 'mcpServers'. Remove them, or choose another framework.", d.Framework)
}

func checkSchema(d *stint.Definition) *stint.Error {
	if d.Schema() == nil {
		return nil
	}
	if err := jsonschema.CheckSchema(d.Schema()); err != nil {
		return stint.InvalidParam("output.schema", "'output.schema' is not a supported JSON Schema: %s", err)
	}
	return nil
}
