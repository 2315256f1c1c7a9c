package egress

import (
	"bytes"
	"errors"
	"os"
	"time"
)

// Bounds of what is read of a connection before it is let through.
const (
	maxOpening    = 32 << 10
	pause         = 300 * time.Millisecond // after which an unfinished opening is taken as it is
	openingLimit  = 10 * time.Second       // for the whole of one that must be read as a whole
	greetingBytes = 4 << 10
)

type kind int

const (
	kindTCP   kind = iota // nothing that we know, or the other end spoke first
	kindTLS               // a whole ClientHello
	kindHTTP              // the first line of an HTTP/1 request
	kindHTTP2             // the preface of cleartext HTTP/2
	kindUnreadable
)

// opening is what a client's first bytes show.
type opening struct {
	kind kind
	hello
	looksTLS bool // also where the ClientHello cannot be read
}

func (o opening) protocol() string {
	switch {
	case o.kind == kindTLS || o.looksTLS:
		return "tls"
	case o.kind == kindHTTP:
		return "http/1.1"
	case o.kind == kindHTTP2:
		return "h2"
	}
	return "tcp"
}

// classify tells what b opens; errMore when a part of it is missing. What
// other programs may yet read as TLS or HTTP, though we cannot, is unreadable.
func classify(b []byte) (opening, error) {
	if len(b) == 0 {
		return opening{}, errMore
	}
	if looksLikeTLS(b) {
		h, err := parseHello(b)
		switch {
		case errors.Is(err, errMore):
			return opening{kind: kindUnreadable, looksTLS: true}, errMore
		case err != nil:
			return opening{kind: kindUnreadable, looksTLS: true}, nil
		}
		return opening{kind: kindTLS, hello: h}, nil
	}
	return classifyLine(bytes.TrimLeft(b, "\r\n")) // as lenient servers do
}

func classifyLine(b []byte) (opening, error) {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	for i, c := range line {
		if c < ' ' && c != '\t' && c != '\r' || c == 0x7f {
			if bytes.ContainsAny(line[:i], " \t") {
				return opening{kind: kindUnreadable}, nil
			}
			return opening{kind: kindTCP}, nil
		}
	}
	switch {
	case !whole:
		return opening{kind: kindUnreadable}, errMore
	case bytes.HasPrefix(line, []byte("PRI * HTTP/2")):
		return opening{kind: kindHTTP2}, nil
	case bytes.Contains(line, []byte("HTTP/")):
		return opening{kind: kindHTTP}, nil
	}
	return opening{kind: kindTCP}, nil
}

// listen reads what the client opens with, until that is clear or the other
// end speaks first. What was read stays in the stream.
func (s *Session) listen(c *stream, d dest, a *attempt) opening {
	defer a.heard(c)
	silence := s.gate.config.IdleTimeout
	if a.failed() {
		silence = pause
	}
	var limit time.Time // of the opening, from its first byte on
	for {
		o, err := classify(c.prefix)
		if err == nil {
			return o
		}
		if len(c.prefix) >= maxOpening {
			return o
		}
		deadline := time.Now().Add(silence)
		if len(c.prefix) > 0 {
			if limit.IsZero() {
				limit = time.Now().Add(openingLimit)
			}
			deadline = limit
			if !s.strict(d) && !o.looksTLS {
				deadline = time.Now().Add(pause)
			}
		}
		switch err := a.read(c, deadline); {
		case err == nil:
		case errors.Is(err, errSpoke) && a.failed():
			silence = pause
		case errors.Is(err, os.ErrDeadlineExceeded) && len(c.prefix) == 0:
			return opening{kind: kindTCP}
		default: // the other end spoke, or no more will come
			return o
		}
	}
}
