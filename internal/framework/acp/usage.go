package acp

import (
	"encoding/json"

	"github.com/stint-dev/stint"
)

// usageCounter is what the agent says that it used of models.
type usageCounter struct {
	model    string // the definition's; it names the share of counts without a name
	usage    stint.Usage
	baseline float64 // cost of the conversation before this run, in US dollars
}

// usageUpdate tells how full the context is, which is no usage, and some agents
// what the conversation cost so far.
type usageUpdate struct {
	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// before takes what an agent tells while it loads a conversation.
func (s *usageCounter) before(raw json.RawMessage) {
	if u := decode[usageUpdate](raw); u.Cost != nil && u.Cost.Currency == "USD" {
		s.baseline = u.Cost.Amount
	}
}

// updated is the usage after an update; nil where it tells nothing new.
func (s *usageCounter) updated(raw json.RawMessage) *stint.Usage {
	u := decode[usageUpdate](raw)
	if u.Cost == nil || u.Cost.Currency != "USD" {
		return nil
	}
	cost := u.Cost.Amount - s.baseline
	if cost <= 0 {
		return nil // no news, or nothing that is known
	}
	s.usage.CostUSD, s.usage.CostSource = &cost, stint.CostByAgent
	return s.told()
}

func (s *usageCounter) told() *stint.Usage {
	u := s.usage.Clone()
	return &u
}

// answered is the usage at the end; nil where the agent tells none.
func (s *usageCounter) answered(p *prompted) *stint.Usage {
	before := s.usage.Clone()
	switch {
	case present(p.Usage):
		u := decode[counts](p.Usage)
		s.usage.Count(s.model, u.tokens())
	case present(p.Meta.Quota):
		s.quota(decode[quota](p.Meta.Quota))
	}
	if s.usage.Tokens == before.Tokens {
		return nil
	}
	return s.told()
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// counts are the protocol's. It leaves open whether input has what was cached in
// it, and output what was thought; the total tells.
type counts struct {
	Total      int64 `json:"totalTokens"`
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cachedReadTokens"`
	CacheWrite int64 `json:"cachedWriteTokens"`
	Thought    int64 `json:"thoughtTokens"`
}

func (c counts) tokens() stint.Tokens {
	t := stint.Tokens{
		InputTokens: sane(c.Input), OutputTokens: sane(c.Output),
		CacheReadTokens: sane(c.CacheRead), CacheWriteTokens: sane(c.CacheWrite), ReasoningTokens: sane(c.Thought),
	}
	rest, cached := sane(c.Total)-t.Total(), t.CacheReadTokens+t.CacheWriteTokens
	if rest >= cached {
		t.InputTokens += cached
		rest -= cached
	}
	if rest >= t.ReasoningTokens {
		t.OutputTokens += t.ReasoningTokens
	}
	return t
}

// sane is a count that sums of few others cannot break.
func sane(n int64) int64 { return min(max(n, 0), 1<<50) }

// quota is how some agents tell their counts, by model.
type quota struct {
	Tokens quotaTokens `json:"token_count"`
	Models []struct {
		Model  string      `json:"model"`
		Tokens quotaTokens `json:"token_count"`
	} `json:"model_usage"`
}

type quotaTokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

func (s *usageCounter) quota(q quota) {
	for _, m := range q.Models[:min(len(q.Models), 64)] {
		s.usage.Count(m.Model, stint.Tokens{InputTokens: sane(m.Tokens.Input), OutputTokens: sane(m.Tokens.Output)})
	}
	if len(q.Models) == 0 {
		s.usage.Count(s.model, stint.Tokens{InputTokens: sane(q.Tokens.Input), OutputTokens: sane(q.Tokens.Output)})
	}
}
