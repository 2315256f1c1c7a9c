package agents

import (
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/jsonschema"
)

// checkFramework refuses what the framework of a definition could not do, when
// the definition is stored rather than when it is first run.
func checkFramework(d *stint.Definition) error {
	f, err := registry.Find(d)
	if err != nil {
		return err
	}
	if err := f.Check(d); err != nil {
		return err
	}
	var faults []*stint.Error
	for _, e := range []*stint.Error{checkTools(d, f.Info()), checkCost(d), checkSchema(d)} {
		if e != nil {
			faults = append(faults, e)
		}
	}
	return stint.JoinErrors(faults)
}

// checkTools refuses servers of tools that nothing would be told of.
func checkTools(d *stint.Definition, of framework.Info) *stint.Error {
	if len(d.MCPServers) == 0 || of.Capabilities.MCP {
		return nil
	}
	return stint.InvalidParam("mcpServers", "The framework '%s' cannot use 'mcpServers'. Leave them out, or choose another framework.", d.Framework)
}

// checkCost refuses a cost limit if neither prices nor the framework provide costs.
func checkCost(d *stint.Definition) *stint.Error {
	if d.Limits == nil || d.Limits.MaxCostUSD == 0 {
		return nil
	}
	if f, _ := catalog.Find(d.Framework); f.ReportsCost {
		return nil
	}
	if d.Provider == nil || len(d.Provider.Prices) == 0 {
		return stint.InvalidParam("limits.maxCostUsd", "'limits.maxCostUsd' needs 'provider.prices': with the framework '%s' nothing else tells what the model costs. Give the prices of its models, or bound 'limits.maxTokens' instead.", d.Framework)
	}
	if _, known := d.Provider.Price(d.Model); d.Model != "" && !known {
		return stint.InvalidParam("limits.maxCostUsd", "'limits.maxCostUsd' needs the price of the model '%s'. Add it to 'provider.prices', or give one for '*'.", d.Model)
	}
	return nil
}

func checkSchema(d *stint.Definition) *stint.Error {
	if d.Schema() == nil {
		return nil
	}
	if err := jsonschema.CheckSchema(d.Schema()); err != nil {
		return stint.InvalidParam("output.schema", "'output.schema' is no JSON Schema that can be used: %s", err)
	}
	return nil
}
