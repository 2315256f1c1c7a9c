package llmproxy

import "github.com/stint-dev/stint"

// Metered reads an answer in pieces of n bytes, and tells the model and what
// it says was used.
func Metered(answer []byte, events, anthropic bool, n int) (string, stint.Tokens) {
	m := newMeter(events)
	for len(answer) > 0 {
		k := min(n, len(answer))
		_, _ = m.Write(answer[:k])
		answer = answer[k:]
	}
	return m.found.model, m.told(anthropic)
}

// Estimated reads an answer as a whole and tells what was used by a request of
// asked bytes, the answer cut off or not.
func Estimated(answer []byte, events, anthropic bool, asked int64, cut bool) stint.Tokens {
	m := newMeter(events)
	_, _ = m.Write(answer)
	return m.tokens(anthropic, asked, cut)
}

// NewMeter makes what reads an answer.
func NewMeter(events bool) interface{ Write([]byte) (int, error) } { return newMeter(events) }
