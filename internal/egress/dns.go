package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

const (
	maxQueries    = 64 // of a run at once
	answerTTL     = 5  // seconds
	maxQuerySize  = 4 << 10
	streamIdle    = 10 * time.Second
	streamQueries = 1000 // of one connection
	edeBlocked    = 15   // extended DNS errors
	edeProhibited = 18
	edeNetwork    = 23
	optionEDE     = 15
)

// answerAll answers the sandbox's datagrams until the socket ends.
func (s *Session) answerAll(c net.PacketConn) {
	b := make([]byte, maxQuerySize)
	for {
		n, from, err := c.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil && !s.pause(20*time.Millisecond):
			return
		case err != nil:
			continue
		}
		query := append([]byte(nil), b[:n]...)
		select {
		case s.asks <- struct{}{}:
			s.work.Go(func() {
				defer func() { <-s.asks }()
				if reply := s.answerQuery(s.life, query); reply != nil {
					_, _ = c.WriteTo(reply, from) // a client that is gone asks no more
				}
			})
		default: // lost, as datagrams may be
			s.journal.write(Entry{Time: s.gate.config.Now(), Action: Deny, Rule: "too many queries", Protocol: "dns", Port: dnsPort})
		}
	}
}

// answerStream answers queries over TCP, one after the other.
func (s *Session) answerStream(ctx context.Context, c *stream) {
	var size [2]byte
	for range streamQueries {
		_ = c.SetDeadline(time.Now().Add(streamIdle))
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply := s.answerQuery(ctx, query)
		if reply == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// query is what a datagram asks.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	edns     bool
}

// reply is what is answered.
type reply struct {
	code dnsmessage.RCode
	addr netip.Addr // of an A record, where it is valid
	ede  uint16     // why not, for clients that understand it
	why  string
}

// answerQuery answers a message; nil drops what is no query.
func (s *Session) answerQuery(ctx context.Context, message []byte) []byte {
	q, code, ok := parseQuery(message)
	if !ok {
		return nil
	}
	if code != dnsmessage.RCodeSuccess {
		return q.write(reply{code: code})
	}
	return q.write(s.resolve(ctx, q.question))
}

// parseQuery reads a query; the code tells what is wrong with one that can be
// answered, ok is false for one that cannot.
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

// write builds the answer to q.
func (q query) write(r reply) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode,
		RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true, RCode: r.code,
	})
	b.EnableCompression()
	err := b.StartQuestions()
	if err == nil && q.question.Type != 0 {
		err = b.Question(q.question)
	}
	if err == nil && r.addr.IsValid() {
		err = errors.Join(b.StartAnswers(), b.AResource(
			dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: answerTTL},
			dnsmessage.AResource{A: r.addr.As4()}))
	}
	if err == nil && q.edns {
		err = errors.Join(b.StartAdditionals(), writeOPT(&b, r))
	}
	message, finish := b.Finish()
	if err != nil || finish != nil {
		return nil
	}
	return message
}

// writeOPT tells clients that understand it why there is no answer.
func writeOPT(b *dnsmessage.Builder, r reply) error {
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(maxQuerySize, r.code, false); err != nil {
		return err
	}
	var opt dnsmessage.OPTResource
	if r.ede != 0 {
		data := append(binary.BigEndian.AppendUint16(nil, r.ede), r.why...)
		opt.Options = []dnsmessage.Option{{Code: optionEDE, Data: data}}
	}
	return b.OPTResource(h, opt)
}

// resolve decides what a question is answered, and tells what is refused or
// fails.
func (s *Session) resolve(ctx context.Context, q dnsmessage.Question) reply {
	began := s.gate.config.Now()
	name, err := stint.CanonicalDomain(q.Name.String())
	if err != nil {
		name = q.Name.String()
	}
	tell := func(change func(*Entry)) {
		e := Entry{
			Time: began, Action: Deny, Protocol: "dns", Method: strings.TrimPrefix(q.Type.String(), "Type"), Host: name, Port: dnsPort,
			Duration: s.gate.config.Now().Sub(began),
		}
		change(&e)
		s.journal.write(e)
	}
	refuse := func(code uint16, r *proxy.Refusal) reply {
		tell(func(e *Entry) { e.Rule, e.Error = r.Rule, r.Message })
		return reply{code: dnsmessage.RCodeNameError, ede: code, why: r.Message}
	}
	switch {
	case err != nil:
		return refuse(edeBlocked, refusal("no host name", "This is no name of a host."))
	case name == "localhost":
		return local(q.Type)
	}
	rule, refused := s.knows(name)
	if refused != nil {
		return refuse(edeProhibited, refused)
	}
	if q.Type != dnsmessage.TypeA {
		return reply{}
	}
	if refused, err = s.leads(ctx, name); refused != nil {
		return refuse(edeBlocked, refused)
	}
	if err != nil {
		tell(func(e *Entry) { e.Action, e.Rule, e.Error = Allow, rule, err.Error() })
		return failed(err)
	}
	addr, ok := s.pins.of(name)
	if !ok {
		return refuse(edeBlocked, refusal("too many names", "This run has looked up more names than a run may."))
	}
	return reply{addr: addr}
}

// local answers for the sandbox itself.
func local(t dnsmessage.Type) reply {
	if t == dnsmessage.TypeA {
		return reply{addr: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return reply{}
}

// failed tells a name that does not exist from a lookup that may be tried
// again.
func failed(err error) reply {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return reply{code: dnsmessage.RCodeNameError}
	}
	return reply{code: dnsmessage.RCodeServerFailure, ede: edeNetwork, why: "The lookup failed."}
}

// knows decides whether a name may be looked up at all.
func (s *Session) knows(name string) (string, *proxy.Refusal) {
	switch {
	case s.policy.offers(name):
		return s.policy.own[name], nil
	case name == stint.ProxyAlias && s.proxies():
		return "proxy", nil
	case s.policy.mode == None:
	case name == stint.HostAlias:
		return s.policy.worker(0)
	case name == stint.ModelAlias:
		return "", refusal("unknown name", "The agent's definition names no provider whose model could be reached as %s.", name)
	case name == stint.APIAlias:
		return "", refusal("unknown name", "The agent's definition hands it no tools at %s.", name)
	case ownName(name):
		return "", refusal("unknown name", "Below stint.internal there are only %s and %s.", stint.HostAlias, stint.ProxyAlias)
	}
	return s.policy.named(name, 0)
}

// leads looks a name up and tells whether any of its addresses may be reached.
func (s *Session) leads(ctx context.Context, name string) (*proxy.Refusal, error) {
	if ownName(name) {
		return nil, nil
	}
	addrs, err := s.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	found, refused := s.checked(addrs, dest{name: name}, "")
	if len(found) > 0 {
		return nil, nil
	}
	return refused, nil
}
