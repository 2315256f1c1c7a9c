package gateway

import "github.com/stint-dev/stint"

// Metered reads an answer in pieces of n bytes, and tells the model and what
// was used.
func Metered(answer []byte, events, anthropic bool, n int) (string, stint.Tokens) {
	m := newMeter(events)
	for len(answer) > 0 {
		k := min(n, len(answer))
		_, _ = m.Write(answer[:k])
		answer = answer[k:]
	}
	return m.found.model, m.tokens(anthropic)
}

// NewMeter makes what reads an answer.
func NewMeter(events bool) interface{ Write([]byte) (int, error) } { return newMeter(events) }
