package dns

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	answerTTL      = 5 // seconds
	maxMessageSize = 4 << 10
	optionEDE      = 15
)

// Extended DNS errors (RFC 8914), which explain an answer to clients that
// understand them.
const (
	Blocked      = 15
	Prohibited   = 18
	networkError = 23
)

// Reply is the answer to a question.
type Reply struct {
	Code   dnsmessage.RCode
	Addr   netip.Addr // of an A record, if valid
	Error  uint16     // an extended DNS error, or 0
	Reason string
}

// Refuse returns NXDOMAIN with an extended DNS error.
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

type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	edns     bool
}

// parseQuery parses a message. ok is false if it cannot be answered; code is
// the error to answer with, if any.
func parseQuery(message []byte) (q query, code dnsmessage.RCode, ok bool) {
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(message); err != nil || q.header.Response {
		return q, 0, false
	}
	if q.header.OpCode != 0 {
		return q, dnsmessage.RCodeNotImplemented, true
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 {
		return q, dnsmessage.RCodeFormatError, true
	}
	q.question = questions[0]
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil || p.SkipAdditional() != nil {
			return q, dnsmessage.RCodeFormatError, true
		}
		q.edns = q.edns || h.Type == dnsmessage.TypeOPT
	}
	if q.question.Class != dnsmessage.ClassINET {
		return q, dnsmessage.RCodeNameError, true
	}
	return q, dnsmessage.RCodeSuccess, true
}

// encode returns the response to q, or nil if it cannot be encoded.
func (q query) encode(r Reply) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode,
		RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true, RCode: r.Code,
	})
	b.EnableCompression()
	err := b.StartQuestions()
	if err == nil && q.question.Type != 0 {
		err = b.Question(q.question)
	}
	if err == nil && r.Addr.IsValid() {
		err = errors.Join(b.StartAnswers(), b.AResource(
			dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: answerTTL},
			dnsmessage.AResource{A: r.Addr.As4()}))
	}
	if err == nil && q.edns {
		err = errors.Join(b.StartAdditionals(), appendOPT(&b, r))
	}
	message, finishErr := b.Finish()
	if err != nil || finishErr != nil {
		return nil
	}
	return message
}

func appendOPT(b *dnsmessage.Builder, r Reply) error {
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(maxMessageSize, r.Code, false); err != nil {
		return err
	}
	var opt dnsmessage.OPTResource
	if r.Error != 0 {
		data := append(binary.BigEndian.AppendUint16(nil, r.Error), r.Reason...)
		opt.Options = []dnsmessage.Option{{Code: optionEDE, Data: data}}
	}
	return b.OPTResource(h, opt)
}
