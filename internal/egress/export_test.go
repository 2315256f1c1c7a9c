package egress

import (
	"context"
	"errors"
)

// AnswerQuery answers a DNS message.
func (u *Uplink) AnswerQuery(message []byte) []byte {
	return u.dns.Answer(context.Background(), message)
}

// ServerName parses a ClientHello; more reports that it is incomplete.
func ServerName(b []byte) (name string, hidden, more bool, err error) {
	h, err := parseClientHello(b)
	return h.serverName, h.encrypted, errors.Is(err, errIncomplete), err
}

// Opening classifies a client's first bytes; more reports that they are not
// enough.
func Opening(b []byte) (protocol string, readable, more bool) {
	o, err := classify(b)
	return o.protocol(), o.kind != kindUnreadable, err != nil
}
