package stint

import "maps"

// Usage is what a run used of models, in the meaning of OpenTelemetry's
// generative AI conventions: InputTokens includes what was read from and
// written to a cache, OutputTokens includes reasoning.
type Usage struct {
	Tokens
	CostUSD *float64 `json:"costUsd"` // nil where nobody knows it
	// CostSource tells who says so: agent, or prices for the definition's list.
	CostSource string `json:"costSource,omitempty"`
	// Models has a share for each model that was asked, of which many or oddly
	// named ones share one.
	Models map[string]Tokens `json:"models,omitempty"`
}

// Agents name the models, as many and as long as they like.
const (
	maxModels    = 64
	maxModelName = 256 // bytes
	otherModels  = "other"
)

// Who says what a run cost.
const (
	CostByAgent  = "agent"
	CostByPrices = "prices"
)

// Tokens counts what went to a model and came from it.
type Tokens struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
	ReasoningTokens  int64 `json:"reasoningTokens"`
	ModelCalls       int64 `json:"modelCalls"`
}

// Add counts other on top.
func (t *Tokens) Add(other Tokens) {
	t.InputTokens += other.InputTokens
	t.OutputTokens += other.OutputTokens
	t.CacheReadTokens += other.CacheReadTokens
	t.CacheWriteTokens += other.CacheWriteTokens
	t.ReasoningTokens += other.ReasoningTokens
	t.ModelCalls += other.ModelCalls
}

// Minus is what t counts beyond other, never less than nothing.
func (t Tokens) Minus(other Tokens) Tokens {
	return Tokens{
		InputTokens:      max(0, t.InputTokens-other.InputTokens),
		OutputTokens:     max(0, t.OutputTokens-other.OutputTokens),
		CacheReadTokens:  max(0, t.CacheReadTokens-other.CacheReadTokens),
		CacheWriteTokens: max(0, t.CacheWriteTokens-other.CacheWriteTokens),
		ReasoningTokens:  max(0, t.ReasoningTokens-other.ReasoningTokens),
		ModelCalls:       max(0, t.ModelCalls-other.ModelCalls),
	}
}

// Total is all tokens, in and out.
func (t Tokens) Total() int64 { return t.InputTokens + t.OutputTokens }

// Count adds a share of one model to the whole and to the model. Beyond 64 models
// further ones count as "other".
func (u *Usage) Count(model string, t Tokens) {
	u.Add(t)
	if model == "" {
		return
	}
	if u.Models == nil {
		u.Models = map[string]Tokens{}
	}
	if _, known := u.Models[model]; !known && (len(u.Models) >= maxModels || len(model) > maxModelName) {
		model = otherModels
	}
	share := u.Models[model]
	share.Add(t)
	u.Models[model] = share
}

// Clone is a copy that shares nothing with u.
func (u Usage) Clone() Usage {
	u.Models = maps.Clone(u.Models)
	if u.CostUSD != nil {
		cost := *u.CostUSD
		u.CostUSD = &cost
	}
	return u
}

// Price is what a model's tokens cost, in US dollars for a million. A cache
// price of 0 stands for that of input.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
}

// Cost is what the tokens cost, in US dollars.
func (p Price) Cost(t Tokens) float64 {
	read, write := p.CacheRead, p.CacheWrite
	if read == 0 {
		read = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	plain := max(0, t.InputTokens-t.CacheReadTokens-t.CacheWriteTokens)
	return (float64(plain)*p.Input + float64(t.CacheReadTokens)*read + float64(t.CacheWriteTokens)*write + float64(t.OutputTokens)*p.Output) / 1e6
}
