package llmproxy

import (
	"slices"

	"github.com/stint-dev/stint"
)

// Metered writes a response to a usage meter in pieces of n bytes. It returns the model and
// the reported usage.
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

// Estimated writes a whole response to a usage meter. It returns the usage of a call with a
// request of requestBytes bytes, which is estimated if the response reports none.
func Estimated(response []byte, events, anthropic bool, requestBytes int64, interrupted bool) stint.Tokens {
	m := newUsageMeter(events)
	_, _ = m.Write(response)
	return m.usage(anthropic, requestBytes, interrupted)
}

// EstimatedCompressed writes a gzip-compressed response of an unknown format to a usage meter. It
// returns the usage, which is estimated from the decompressed size.
func EstimatedCompressed(response []byte) stint.Tokens {
	m := newUsageMeter(false)
	to, finish := m.tap("gzip", false)
	for piece := range slices.Chunk(response, 32<<10) {
		_, _ = to.Write(piece)
	}
	finish()
	return m.usage(false, 0, false)
}

// NewUsageMeter returns a new usage meter.
func NewUsageMeter(events bool) interface{ Write([]byte) (int, error) } { return newUsageMeter(events) }
