package acp

import (
	"encoding/json"

	"github.com/stint-dev/stint"
)

// usageCounter computes the usage of the run from the costs and token counts that
// the agent reports.
type usageCounter struct {
	model    string // the definition's model; used for counts without a model name
	usage    stint.Usage
	baseline float64 // cost of the conversation before this run, in USD
}

// usageUpdate is an update about usage. It contains the size of the context, which is
// ignored, and with some agents the cost of the whole conversation.
type usageUpdate struct {
	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// setBaseline handles an update that belongs to the history of earlier runs.
func (s *usageCounter) setBaseline(raw json.RawMessage) {
	if u := decode[usageUpdate](raw); u.Cost != nil && u.Cost.Currency == "USD" {
		s.baseline = u.Cost.Amount
	}
}

// update handles an update and returns the usage of the run, or nil if the update
// contains no new cost.
func (s *usageCounter) update(raw json.RawMessage) *stint.Usage {
	u := decode[usageUpdate](raw)
	if u.Cost == nil || u.Cost.Currency != "USD" {
		return nil
	}
	cost := u.Cost.Amount - s.baseline
	if cost <= 0 {
		return nil // the agent reported no cost since the baseline
	}
	s.usage.CostUSD, s.usage.CostSource = &cost, stint.CostByAgent
	return s.current()
}

func (s *usageCounter) current() *stint.Usage {
	u := s.usage.Clone()
	return &u
}

// final returns the usage of the run including the token counts in the response to
// the prompt, or nil if the response contains no token counts.
func (s *usageCounter) final(p *promptResult) *stint.Usage {
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
	return s.current()
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// counts are token counts as the protocol defines them. The protocol does not
// specify whether the input includes cached tokens and whether the output includes
// reasoning tokens. The function tokens derives both from the total.
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
		InputTokens: clamp(c.Input), OutputTokens: clamp(c.Output),
		CacheReadTokens: clamp(c.CacheRead), CacheWriteTokens: clamp(c.CacheWrite), ReasoningTokens: clamp(c.Thought),
	}
	rest, cached := clamp(c.Total)-t.Total(), t.CacheReadTokens+t.CacheWriteTokens
	if rest >= cached {
		t.InputTokens += cached
		rest -= cached
	}
	if rest >= t.ReasoningTokens {
		t.OutputTokens += t.ReasoningTokens
	}
	return t
}

// clamp limits a count to the range from 0 to 2^50, so that sums cannot overflow.
func clamp(n int64) int64 { return min(max(n, 0), 1<<50) }

// quota has token counts by model, which some agents report instead of counts.
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
		s.usage.Count(m.Model, stint.Tokens{InputTokens: clamp(m.Tokens.Input), OutputTokens: clamp(m.Tokens.Output)})
	}
	if len(q.Models) == 0 {
		s.usage.Count(s.model, stint.Tokens{InputTokens: clamp(q.Tokens.Input), OutputTokens: clamp(q.Tokens.Output)})
	}
}
