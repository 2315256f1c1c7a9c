package agents

import (
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/jsonschema"
)

// checkFramework returns an error if d contains settings that its framework does not
// support. Such a definition is refused when it is stored, not at its first run.
func checkFramework(d *stint.Definition) error {
	f, err := registry.Find(d)
	if err != nil {
		return err
	}
	if err := f.Check(d); err != nil {
		return err
	}
	return stint.JoinErrors(checkMCPServers(d, f.Info()), checkCost(d), checkSchema(d))
}

func checkMCPServers(d *stint.Definition, info framework.Info) *stint.Error {
	if len(d.MCPServers) == 0 || info.Capabilities.MCP {
		return nil
	}
	return stint.InvalidParam("mcpServers", "The framework '%s' cannot use 'mcpServers'. Remove them, or choose another framework.", d.Framework)
}

// checkCost returns an error for a cost limit if neither the framework nor the
// price list provides the cost of the model.
func checkCost(d *stint.Definition) *stint.Error {
	if d.Limits == nil || d.Limits.MaxCostUSD == 0 {
		return nil
	}
	if f, _ := catalog.Find(d.Framework); f.ReportsCost {
		return nil
	}
	if d.Provider == nil || len(d.Provider.Prices) == 0 {
		return stint.InvalidParam("limits.maxCostUsd", "'limits.maxCostUsd' needs 'provider.prices', because the framework '%s' does not report costs. Add the prices of its models, or use 'limits.maxTokens'.", d.Framework)
	}
	if _, known := d.Provider.Price(d.Model); d.Model != "" && !known {
		return stint.InvalidParam("limits.maxCostUsd", "'limits.maxCostUsd' needs the price of the model '%s'. Add it to 'provider.prices', or add a default for '*'.", d.Model)
	}
	return nil
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
