package egress

import (
	"context"
	"errors"
)

// AnswerQuery answers a DNS message as the session's sockets do.
func (u *Uplink) AnswerQuery(message []byte) []byte {
	return u.dns.Answer(context.Background(), message)
}

// ServerName reads a ClientHello; more tells that it is not whole yet.
func ServerName(b []byte) (name string, hidden, more bool, err error) {
	h, err := parseClientHello(b)
	return h.serverName, h.encrypted, errors.Is(err, errIncomplete), err
}

// Opening tells what first bytes are taken for; more tells that they are not
// enough.
func Opening(b []byte) (protocol string, readable, more bool) {
	o, err := classify(b)
	return o.protocol(), o.kind != kindUnreadable, err != nil
}
