package egress

import (
	"context"
	"errors"
)

// AnswerQuery returns the response to a DNS query, or nil if message is not a query.
func (u *Uplink) AnswerQuery(message []byte) []byte {
	return u.dns.Answer(context.Background(), message)
}

// ServerName parses a ClientHello and returns its server name. The result hidden reports
// that an extension may contain an encrypted name, more that b is incomplete.
func ServerName(b []byte) (name string, hidden, more bool, err error) {
	h, err := parseClientHello(b)
	return h.serverName, h.encrypted, errors.Is(err, errIncomplete), err
}

// Opening classifies the first bytes of a client and returns their protocol. The result
// more reports that b has too few bytes for a classification.
func Opening(b []byte) (protocol string, readable, more bool) {
	o, err := classify(b)
	return o.protocol(), o.kind != kindUnreadable, err != nil
}
