package definition

import (
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// maxModel is the maximum length of a model's name in a request, in bytes.
const maxModel = 256

// RunDefinition returns the definition of a run: d, with the model of the request if it
// has one. If the agent cannot use that model, it returns an error.
func RunDefinition(n *stint.NewRun, d *stint.Definition) (stint.Definition, error) {
	run := *d
	if n.Model == "" {
		return run, nil
	}
	if d.Framework == catalog.Shell.Name || d.Framework == catalog.Command.Name {
		return run, stint.InvalidParam("model", "The agent's framework '%s' uses no model of Stint, so 'model' has no effect. Leave it out.", d.Framework)
	}
	if d.Framework == catalog.Assistant.Name && catalog.ModelURL(d) == "" {
		return run, stint.InvalidParam("model", "The agent has no 'provider', so 'model' has no effect. Leave it out, or add a provider to the agent's definition.")
	}
	run.Model = n.Model
	if CheckCost(&run) != nil {
		return run, stint.InvalidParam("model", "The agent has 'limits.maxCostUsd', but 'provider.prices' has no price for the model '%s'. Use another model, or add its price to the agent's definition.", stint.Excerpt(n.Model, 128))
	}
	return run, nil
}

// CheckCost returns an error for a cost limit if neither the framework nor the
// price list provides the cost of the model.
func CheckCost(d *stint.Definition) *stint.Error {
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
