package dns

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	answerTTL      = 5 // seconds
	maxMessageSize = 4 << 10
	optionEDE      = 15
)

// Codes of extended DNS errors (RFC 8914), which explain a response to clients that
// support them.
const (
	Blocked      = 15
	Prohibited   = 18
	networkError = 23
)

// Reply is the content of a DNS response.
type Reply struct {
	Code   dnsmessage.RCode
	Addr   netip.Addr // the address in an A record; the zero value for no record
	Error  uint16     // code of an extended DNS error, or 0 for none
	Reason string
}

// Refuse returns an NXDOMAIN reply with the code and text of an extended DNS error.
func Refuse(code uint16, reason string) Reply {
	return Reply{Code: dnsmessage.RCodeNameError, Error: code, Reason: reason}
}

// Fail returns the reply for a failed lookup: NXDOMAIN if the name does not
// exist, and SERVFAIL for other errors, which clients may retry.
func Fail(err error) Reply {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return Reply{Code: dnsmessage.RCodeNameError}
	}
	return Reply{Code: dnsmessage.RCodeServerFailure, Error: networkError, Reason: "The lookup failed."}
}

type dnsQuery struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	edns     bool
}

// parseQuery parses a message. If ok is false, the message must not be answered. If code
// is not RCodeSuccess, the response must contain that error.
func parseQuery(message []byte) (q dnsQuery, code dnsmessage.RCode, ok bool) {
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(message); err != nil || q.header.Response {
		return q, 0, false
	}
	var m dnsmessage.Message
	switch {
	case q.header.OpCode != 0:
		return q, dnsmessage.RCodeNotImplemented, true
	case m.Unpack(message) != nil || len(m.Questions) != 1:
		return q, dnsmessage.RCodeFormatError, true
	}
	q.question = m.Questions[0]
	q.edns = slices.ContainsFunc(m.Additionals, func(r dnsmessage.Resource) bool { return r.Header.Type == dnsmessage.TypeOPT })
	if q.question.Class != dnsmessage.ClassINET {
		return q, dnsmessage.RCodeNameError, true
	}
	return q, dnsmessage.RCodeSuccess, true
}

// encode returns the message with reply r to q, or nil if it cannot be encoded.
func (q dnsQuery) encode(r Reply) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode,
		RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true, RCode: r.Code,
	}}
	if q.question.Type != 0 {
		m.Questions = []dnsmessage.Question{q.question}
	}
	if r.Addr.IsValid() {
		h := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
		m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: r.Addr.As4()}}}
	}
	if q.edns {
		var h dnsmessage.ResourceHeader
		if h.SetEDNS0(maxMessageSize, r.Code, false) != nil {
			return nil
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{Options: r.options()}}}
	}
	message, err := m.Pack()
	if err != nil {
		return nil
	}
	return message
}

// options returns the EDNS option with the extended DNS error, or nil without an error.
func (r Reply) options() []dnsmessage.Option {
	if r.Error == 0 {
		return nil
	}
	return []dnsmessage.Option{{Code: optionEDE, Data: append(binary.BigEndian.AppendUint16(nil, r.Error), r.Reason...)}}
}
