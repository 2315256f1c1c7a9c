package egress

import (
	"context"
	"errors"
)

// AnswerQuery answers a DNS message as the session's sockets do.
func (s *Session) AnswerQuery(message []byte) []byte {
	return s.answerQuery(context.Background(), message)
}

// ServerName reads a ClientHello; more tells that it is not whole yet.
func ServerName(b []byte) (name string, hidden, more bool, err error) {
	h, err := parseHello(b)
	return h.serverName, h.hidden, errors.Is(err, errMore), err
}

// Opening tells what first bytes are taken for; more tells that they are not
// enough.
func Opening(b []byte) (protocol string, readable, more bool) {
	o, err := classify(b)
	return o.protocol(), o.kind != kindUnreadable, err != nil
}
