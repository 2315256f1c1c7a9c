// Package dns contains the DNS server of a sandbox, the table of the addresses that
// represent names in the sandbox, and a cache of lookups.
package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	maxQueries    = 64 // simultaneous queries of a run over UDP
	streamIdle    = 10 * time.Second
	streamQueries = 1000 // queries of a TCP connection
	retryDelay    = 20 * time.Millisecond
)

// Server answers DNS queries over UDP and TCP. It is safe for concurrent use.
type Server struct {
	resolve func(context.Context, dnsmessage.Question) Reply
	dropped func()
	slots   chan struct{} // contains one value per UDP query in progress
}

// NewServer returns a server that calls resolve for each well-formed question,
// and dropped for each datagram that it ignores because 64 queries are in
// progress. Both are called concurrently.
func NewServer(resolve func(context.Context, dnsmessage.Question) Reply, dropped func()) *Server {
	return &Server{resolve: resolve, dropped: dropped, slots: make(chan struct{}, maxQueries)}
}

// ServePackets answers the datagrams that c receives until c is closed. It then waits
// for the queries in progress. If reading fails after the end of ctx, it also returns.
func (s *Server) ServePackets(ctx context.Context, c net.PacketConn) {
	var work sync.WaitGroup
	defer work.Wait()
	b := make([]byte, maxMessageSize)
	for {
		n, from, err := c.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			select {
			case <-time.After(retryDelay):
				continue
			case <-ctx.Done():
				return
			}
		}
		message := append([]byte(nil), b[:n]...)
		select {
		case s.slots <- struct{}{}:
			work.Go(func() {
				defer func() { <-s.slots }()
				if response := s.Answer(ctx, message); response != nil {
					_, _ = c.WriteTo(response, from) // after an error the client repeats the query
				}
			})
		default:
			s.dropped()
		}
	}
}

// ServeConn answers at most 1,000 queries of a TCP connection, one after the other. It
// returns earlier if a message is not a query, or if reading a query and writing its
// response take longer than 10 s.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) {
	var size [2]byte
	for range streamQueries {
		_ = c.SetDeadline(time.Now().Add(streamIdle))
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, message); err != nil {
			return
		}
		response := s.Answer(ctx, message)
		if response == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...)); err != nil {
			return
		}
	}
}

// Answer returns the response to a message, or nil if the message is not a query or
// the response cannot be encoded.
func (s *Server) Answer(ctx context.Context, message []byte) []byte {
	q, code, ok := parseQuery(message)
	if !ok {
		return nil
	}
	if code != dnsmessage.RCodeSuccess {
		return q.encode(Reply{Code: code})
	}
	return q.encode(s.resolve(ctx, q.question))
}
