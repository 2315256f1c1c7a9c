package engine

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
)

// warnAt is the share of a budget at which the run is warned.
const warnAt = 0.8

// meter adds up what a run uses of models. What the gateway saw counts before
// what the agent says: it is right when the agent was killed, too. It is safe
// for concurrent use.
type meter struct {
	limits   stint.Limits
	provider *stint.Provider

	mu     sync.Mutex
	agent  *stint.Usage // as the agent tells it
	seen   stint.Usage  // by the gateway
	turns  int64        // as the agent tells them
	heard  time.Time    // when it was last heard of
	warned map[string]bool
}

func newMeter(a *dispatch.Assignment) *meter {
	m := &meter{warned: map[string]bool{}}
	if a.Spec != nil {
		m.limits, m.provider = a.Spec.Limits, a.Spec.Definition.Provider
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

// called takes what the gateway saw of one call.
func (m *meter) called(model string, t stint.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.Count(model, t)
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
	case m.seen.ModelCalls > 0:
		u = m.seen.Clone()
	case m.agent != nil:
		u = m.agent.Clone()
	default:
		return nil
	}
	u.CostUSD, u.CostSource = m.priced(u.Models)
	if u.CostUSD == nil && m.agent != nil && m.agent.CostUSD != nil {
		cost := *m.agent.CostUSD
		u.CostUSD, u.CostSource = &cost, stint.CostByAgent
	}
	return &u
}

// priced is the cost by the definition's prices, where they name every model.
func (m *meter) priced(models map[string]stint.Tokens) (*float64, string) {
	if len(models) == 0 {
		return nil, ""
	}
	sum := 0.0
	for model, t := range models {
		price, ok := m.provider.Price(model)
		if !ok {
			return nil, ""
		}
		sum += price.Cost(t)
	}
	return &sum, stint.CostByPrices
}

// bound is one limit and how much of it is used.
type bound struct {
	name      string // of the limit's member
	used, may float64
	text      string // of what was used
}

// check tells which bound was newly come near to, and which is exceeded.
func (m *meter) check() (near, over *bound) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.bounds() {
		switch {
		case b.used > b.may:
			return nil, &b
		case b.used >= warnAt*b.may && !m.warned[b.name]:
			m.warned[b.name] = true
			near = &b
		}
	}
	return near, nil
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
