// Package usage counts the tokens, turns, and cost of a run, and compares them with the
// limits of the run.
package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/plainjson"
)

// Meter adds up the model usage of a run. It prefers the counts of the model proxy to
// those of the agent, because they are correct even if the agent was killed. It is safe
// for concurrent use.
type Meter struct {
	limits      stint.Limits
	provider    *stint.Provider
	reportsCost bool // the framework reports the cost of a run
	changed     chan struct{}

	mu      sync.Mutex      // guards the fields below
	earlier *stint.Usage    // usage of the run's earlier attempts; nil without any
	agent   *stint.Usage    // usage that the agent reported; nil before its first report
	proxy   stint.Usage     // usage that the model proxy counted
	cost    cost            // cost of proxy
	turns   int64           // number of turns that the agent reported
	active  time.Time       // when the run last showed activity
	warned  map[string]bool // by name of a limit: Check has returned a warning
}

// NewMeter returns a meter. provider may be nil; reportsCost means that the
// framework reports the cost of a run.
func NewMeter(limits stint.Limits, provider *stint.Provider, reportsCost bool) *Meter {
	return &Meter{limits: limits, provider: provider, reportsCost: reportsCost, changed: make(chan struct{}, 1), warned: map[string]bool{}}
}

// Continue adds the usage of the run's earlier attempts, in the form of JSON.
func (m *Meter) Continue(earlier json.RawMessage) {
	var u stint.Usage
	if len(earlier) == 0 || json.Unmarshal(earlier, &u) != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.earlier = &u
}

// Changed returns a channel that receives a value after usage was added. One value may
// stand for several additions.
func (m *Meter) Changed() <-chan struct{} { return m.changed }

func (m *Meter) notify() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// SetAgent stores the agent's own counts. A nil u leaves the usage unchanged.
func (m *Meter) SetAgent(u *stint.Usage, turns int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u != nil {
		clone := u.Clone()
		m.agent = &clone
	}
	m.turns = max(m.turns, turns)
	m.notify()
}

// AddCall adds one call of a model as the proxy counted it. answered is the
// model's name in the response, asked is the one in the request.
func (m *Meter) AddCall(answered, asked string, t stint.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proxy.Count(cmp.Or(answered, asked), t)
	m.cost.add(m.provider, t, answered, asked)
	m.notify()
}

// Heard records activity of the run.
func (m *Meter) Heard(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active = at
}

// WaitIdle waits until the run has been inactive for limit, and then returns true. If
// ctx ends before, it returns false.
func (m *Meter) WaitIdle(ctx context.Context, limit time.Duration, now func() time.Time) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		m.mu.Lock()
		left := limit - now().Sub(m.active)
		m.mu.Unlock()
		if left <= 0 {
			return true
		}
		timer.Reset(left)
	}
}

// JSON returns the usage in the form of the API, or nil if no model was called.
func (m *Meter) JSON() json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.sum()
	if u == nil {
		return nil
	}
	if u.CostUSD != nil {
		cost := math.Round(*u.CostUSD*1e9) / 1e9 // sums of floats have further digits
		u.CostUSD = &cost
	}
	b, err := plainjson.Marshal(u)
	if err != nil {
		return nil // cannot happen, because numbers and names can be encoded
	}
	return b
}

// sum returns the usage of all attempts so far; nil if no model was called. m.mu is
// held.
func (m *Meter) sum() *stint.Usage {
	u := m.attempt()
	if u == nil || m.earlier == nil {
		return cmp.Or(u, m.earlier)
	}
	total := m.earlier.Clone()
	total.Join(*u)
	return &total
}

// attempt returns the usage of this attempt; nil if no model was called. m.mu is held.
func (m *Meter) attempt() *stint.Usage {
	var u stint.Usage
	switch {
	case m.prefersAgent():
		u = m.agent.Clone()
		u.ModelCalls = max(u.ModelCalls, m.proxy.ModelCalls)
	case m.proxy.ModelCalls > 0:
		u = m.proxy.Clone()
	default:
		return nil
	}
	u.CostUSD, u.CostSource = nil, ""
	switch c := m.priced(); {
	case c.any && c.unpriced == nil:
		u.CostUSD, u.CostSource = &c.usd, stint.CostByPrices
	case m.agent != nil && m.agent.CostUSD != nil:
		usd := *m.agent.CostUSD
		u.CostUSD, u.CostSource = &usd, stint.CostByAgent
	}
	return &u
}

// prefersAgent reports whether the agent's counts are more complete than the
// proxy's. m.mu is held.
func (m *Meter) prefersAgent() bool {
	return m.agent != nil && (m.proxy.ModelCalls == 0 || m.proxy.Total() == 0 && m.agent.Total() > 0)
}

// cost is the cost of model calls according to the definition's prices.
type cost struct {
	usd      float64
	any      bool    // at least one call was added
	unpriced *string // the first model without a price, which is "" if its name is unknown; nil if all have one
}

// add adds the price of the tokens t of a model. The price is that of the first of the
// names that has one.
func (c *cost) add(by *stint.Provider, t stint.Tokens, names ...string) {
	c.any = true
	if price, ok := by.Price(names...); ok {
		c.usd += price.Cost(t)
	} else if c.unpriced == nil {
		name := cmp.Or(names...)
		c.unpriced = &name
	}
}

// priced returns the cost of the usage that sum returns, according to the definition's
// prices. m.mu is held.
func (m *Meter) priced() cost {
	if !m.prefersAgent() {
		return m.cost
	}
	var c cost
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
