package llmproxy

import "github.com/stint-dev/stint"

// Metered reads a response in pieces of n bytes and returns the model and the
// reported usage.
func Metered(response []byte, events, anthropic bool, n int) (string, stint.Tokens) {
	m := newUsageMeter(events)
	for len(response) > 0 {
		k := min(n, len(response))
		_, _ = m.Write(response[:k])
		response = response[k:]
	}
	t := m.reported(anthropic)
	return m.model, t
}

// Estimated reads a response at once and returns the usage of a call with a
// request of requestBytes bytes.
func Estimated(response []byte, events, anthropic bool, requestBytes int64, interrupted bool) stint.Tokens {
	m := newUsageMeter(events)
	_, _ = m.Write(response)
	return m.usage(anthropic, requestBytes, interrupted)
}

// NewUsageMeter returns a meter as a writer.
func NewUsageMeter(events bool) interface{ Write([]byte) (int, error) } { return newUsageMeter(events) }
