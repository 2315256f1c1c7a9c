package usage

import "fmt"

// warnAt is the used share of a limit at which Check returns a warning.
const warnAt = 0.8

// limit is a limit of the run and its current use.
type limit struct {
	name      string // member of the definition's limits
	used, max float64
	text      string // such as "3 of 10 turns"
}

// BudgetError is the reason to end a run: a limit is exceeded, or cannot be
// enforced because a model has no price. Its text is a message for users.
type BudgetError struct{ message string }

func (e *BudgetError) Error() string { return e.message }

// Check compares the usage with the limits. It returns a warning once for each
// limit that is nearly reached, and a *BudgetError if the run must end.
func (m *Meter) Check() (warnings []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.used() {
		switch {
		case l.used > l.max:
			return nil, &BudgetError{fmt.Sprintf("The run has used %s and was ended. Raise limits.%s in the agent's definition, or ask for less in one run.", l.text, l.name)}
		case l.used >= warnAt*l.max && !m.warned[l.name]:
			m.warned[l.name] = true
			warnings = append(warnings, fmt.Sprintf("The run has used %s (limits.%s).", l.text, l.name))
		}
	}
	if model := m.unpriced(); model != nil {
		return nil, noPrice(*model)
	}
	return warnings, nil
}

// unpriced returns the name of a called model that has no price, so that the limit of
// the cost cannot be enforced. It returns nil without such a model or without a
// limit of the cost. If the definition has no prices, the cost that a framework reports is
// trusted. m.mu is held.
func (m *Meter) unpriced() *string {
	if m.limits.MaxCostUSD <= 0 || m.reportsCost && (m.provider == nil || len(m.provider.Prices) == 0) {
		return nil
	}
	return m.priced().unpriced
}

func noPrice(model string) error {
	name, price := fmt.Sprintf("the model '%s'", model), fmt.Sprintf("one for '%s', or for '*',", model)
	if model == "" {
		name, price = "a model whose name is unknown", "one for '*'"
	}
	return &BudgetError{fmt.Sprintf("The run called %s, which has no price, so that limits.maxCostUsd cannot be enforced, and was ended. Add %s to provider.prices in the agent's definition, or use limits.maxTokens instead.", name, price)}
}

// used returns the limits that the run has, with their current use. The limits of tokens
// and cost are left out while their use is unknown. m.mu is held.
func (m *Meter) used() []limit {
	var out []limit
	if most := m.limits.MaxTurns; most > 0 {
		turns := max(m.turns, 0)
		if turns == 0 {
			turns = m.proxy.ModelCalls
		}
		if m.earlier != nil {
			turns += m.earlier.ModelCalls
		}
		out = append(out, limit{"maxTurns", float64(turns), float64(most), fmt.Sprintf("%d of %d turns", turns, most)})
	}
	u := m.sum()
	if u == nil {
		return out
	}
	if most := m.limits.MaxTokens; most > 0 {
		out = append(out, limit{"maxTokens", float64(u.Total()), float64(most), fmt.Sprintf("%d of %d tokens", u.Total(), most)})
	}
	if most := m.limits.MaxCostUSD; most > 0 && u.CostUSD != nil {
		out = append(out, limit{"maxCostUsd", *u.CostUSD, most, fmt.Sprintf("$%.4f of $%.4f", *u.CostUSD, most)})
	}
	return out
}
