package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// warnAt is the share of a budget at which the run is warned.
const warnAt = 0.8

// meter adds up what a run uses of models. What the gateway saw counts before
// what the agent says: it is right when the agent was killed, too. It is safe
// for concurrent use.
type meter struct {
	limits    stint.Limits
	provider  *stint.Provider
	tellsCost bool // the framework does

	mu     sync.Mutex
	agent  *stint.Usage // as the agent tells it
	seen   stint.Usage  // by the gateway
	cost   priced       // of seen
	turns  int64        // as the agent tells them
	heard  time.Time    // when it was last heard of
	warned map[string]bool
}

func newMeter(a *dispatch.Assignment) *meter {
	m := &meter{warned: map[string]bool{}}
	if a.Plan != nil {
		d := &a.Plan.Definition
		f, _ := catalog.Find(d.Framework)
		m.limits, m.provider, m.tellsCost = a.Plan.Limits, d.Provider, f.ReportsCost
	}
	return m
}

// told takes the agent's own counts.
func (m *meter) told(u *stint.Usage, turns int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u != nil {
		clone := u.Clone()
		m.agent = &clone
	}
	m.turns = max(m.turns, turns)
}

// called takes what the gateway saw of one call of a model, by the name that it
// answered with and the one that it was asked by.
func (m *meter) called(answered, asked string, t stint.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.Count(cmp.Or(answered, asked), t)
	m.cost.add(m.provider, t, answered, asked)
}

func (m *meter) hear(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = at
}

func (m *meter) lastHeard() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heard
}

// usage is what is known so far; nil where no model was asked.
func (m *meter) usage() *stint.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum()
}

func (m *meter) sum() *stint.Usage {
	var u stint.Usage
	switch {
	case m.prefersAgent():
		u = m.agent.Clone()
		u.ModelCalls = max(u.ModelCalls, m.seen.ModelCalls)
	case m.seen.ModelCalls > 0:
		u = m.seen.Clone()
	default:
		return nil
	}
	u.CostUSD, u.CostSource = nil, ""
	switch cost := m.priced(); {
	case cost.any && cost.missing == nil:
		u.CostUSD, u.CostSource = &cost.usd, stint.CostByPrices
	case m.agent != nil && m.agent.CostUSD != nil:
		usd := *m.agent.CostUSD
		u.CostUSD, u.CostSource = &usd, stint.CostByAgent
	}
	return &u
}

// prefersAgent tells whether the agent knows more than the gateway has seen.
func (m *meter) prefersAgent() bool {
	return m.agent != nil && (m.seen.ModelCalls == 0 || m.seen.Total() == 0 && m.agent.Total() > 0)
}

// priced is a cost by the definition's prices.
type priced struct {
	usd     float64
	any     bool
	missing *string // a model that has no price; empty where nobody names it
}

// add prices what a model used that is known by any of the names.
func (c *priced) add(by *stint.Provider, t stint.Tokens, names ...string) {
	c.any = true
	if price, ok := by.Price(names...); ok {
		c.usd += price.Cost(t)
	} else if c.missing == nil {
		name := cmp.Or(names...)
		c.missing = &name
	}
}

// priced is the cost of what sum gives.
func (m *meter) priced() priced {
	if !m.prefersAgent() {
		return m.cost
	}
	var c priced
	rest := m.agent.Tokens
	for _, model := range slices.Sorted(maps.Keys(m.agent.Models)) {
		t := m.agent.Models[model]
		rest = rest.Minus(t)
		c.add(m.provider, t, model)
	}
	if rest.Total() > 0 {
		c.add(m.provider, rest, "")
	}
	return c
}

// bound is one limit and how much of it is used.
type bound struct {
	name      string // of the limit's member
	used, may float64
	text      string // of what was used
}

// check tells which bound was newly come near to, and why the run is to end:
// one is exceeded, or cannot be held.
func (m *meter) check() (near *bound, over *overBudget) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.bounds() {
		switch {
		case b.used > b.may:
			return nil, &overBudget{bound: b}
		case b.used >= warnAt*b.may && !m.warned[b.name]:
			m.warned[b.name] = true
			near = &b
		}
	}
	if model := m.unpriced(); model != nil {
		return nil, &overBudget{unpriced: model}
	}
	return near, nil
}

// unpriced is a model whose price is missing, so that the bound on the cost
// cannot be held; nil where there is none. Without any prices a framework that
// tells costs is believed.
func (m *meter) unpriced() *string {
	if m.limits.MaxCostUSD <= 0 || m.tellsCost && (m.provider == nil || len(m.provider.Prices) == 0) {
		return nil
	}
	return m.priced().missing
}

func (m *meter) bounds() []bound {
	var out []bound
	if may := m.limits.MaxTurns; may > 0 {
		turns := max(m.turns, 0)
		if turns == 0 {
			turns = m.seen.ModelCalls
		}
		out = append(out, bound{"maxTurns", float64(turns), float64(may), fmt.Sprintf("%d of %d turns", turns, may)})
	}
	u := m.sum()
	if u == nil {
		return out
	}
	if may := m.limits.MaxTokens; may > 0 {
		out = append(out, bound{"maxTokens", float64(u.Total()), float64(may), fmt.Sprintf("%d of %d tokens", u.Total(), may)})
	}
	if may := m.limits.MaxCostUSD; may > 0 && u.CostUSD != nil {
		out = append(out, bound{"maxCostUsd", *u.CostUSD, may, fmt.Sprintf("$%.4f of $%.4f", *u.CostUSD, may)})
	}
	return out
}

// encoded is the usage as a run shows it; nil where there is none.
func (m *meter) encoded() json.RawMessage {
	u := m.usage()
	if u == nil {
		return nil
	}
	b, err := json.Marshal(u)
	if err != nil {
		return nil // numbers and names marshal
	}
	return b
}
