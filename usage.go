package stint

import (
	"maps"
	"slices"
)

// Usage is the model usage of a run, as defined in OpenTelemetry's generative AI
// conventions: InputTokens includes tokens read from and written to a cache, and
// OutputTokens includes reasoning.
type Usage struct {
	Tokens
	CostUSD *float64 `json:"costUsd"` // nil if unknown
	// CostSource is the source of CostUSD: CostByAgent, or CostByPrices for the
	// definition's price list. It is empty if CostUSD is nil.
	CostSource string `json:"costSource,omitempty"`
	// Models is the usage by model; see Count.
	Models map[string]Tokens `json:"models,omitempty"`
}

// Limits of model names, which agents choose.
const (
	maxModels    = 64
	maxModelName = 256 // bytes
	otherModels  = "other"
)

// The values of CostSource.
const (
	CostByAgent  = "agent"
	CostByPrices = "prices"
)

// Tokens counts the tokens sent to and received from a model.
type Tokens struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
	ReasoningTokens  int64 `json:"reasoningTokens"`
	ModelCalls       int64 `json:"modelCalls"`
}

// Add adds other to t.
func (t *Tokens) Add(other Tokens) {
	t.InputTokens += other.InputTokens
	t.OutputTokens += other.OutputTokens
	t.CacheReadTokens += other.CacheReadTokens
	t.CacheWriteTokens += other.CacheWriteTokens
	t.ReasoningTokens += other.ReasoningTokens
	t.ModelCalls += other.ModelCalls
}

// Minus returns t minus other, with a minimum of 0 for each count.
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

// Total returns the number of input and output tokens.
func (t Tokens) Total() int64 { return t.InputTokens + t.OutputTokens }

// Count adds the usage of one model to the total and to the model. If model is empty,
// the usage is added only to the total. After 64 models, further ones are counted as
// "other", and so are new ones with names of more than 256 bytes.
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

// Join adds the usage and cost of other to u. If the cost of one of them is unknown, the
// cost of both is unknown.
func (u *Usage) Join(other Usage) {
	sum := u.Tokens
	sum.Add(other.Tokens)
	for _, model := range slices.Sorted(maps.Keys(other.Models)) {
		u.Count(model, other.Models[model])
	}
	u.Tokens = sum
	if u.CostUSD == nil || other.CostUSD == nil {
		u.CostUSD, u.CostSource = nil, ""
		return
	}
	cost := *u.CostUSD + *other.CostUSD
	u.CostUSD, u.CostSource = &cost, other.CostSource
}

// Clone returns a deep copy of u.
func (u Usage) Clone() Usage {
	u.Models = maps.Clone(u.Models)
	if u.CostUSD != nil {
		cost := *u.CostUSD
		u.CostUSD = &cost
	}
	return u
}

// Price is the price of a model's tokens in US dollars per million. If a cache price
// is 0, the price of input applies.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
}

// Cost returns the cost of the tokens in US dollars.
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
