package egress

import (
	"bytes"
	"errors"
	"os"
	"time"
)

// Limits of reading a client's first bytes.
const (
	maxOpening   = 32 << 10
	openingPause = 300 * time.Millisecond // pause after which an incomplete opening is accepted
	openingLimit = 10 * time.Second       // time limit of an opening that must be complete
)

type openingKind int

const (
	kindTCP   openingKind = iota // another protocol, or the server sent bytes first
	kindTLS                      // a complete ClientHello
	kindHTTP                     // the first line of an HTTP/1 request
	kindHTTP2                    // the preface of cleartext HTTP/2
	kindUnreadable
)

// opening is the interpretation of a client's first bytes.
type opening struct {
	kind openingKind
	clientHello
	looksTLS bool // the bytes begin like TLS, but are not a complete ClientHello
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

// classify returns the opening for b, the client's first bytes. If more bytes are
// needed, it returns errIncomplete, and the opening that applies if no more bytes arrive.
// If another parser could read b as TLS or HTTP, but this package cannot, the kind is
// kindUnreadable.
func classify(b []byte) (opening, error) {
	if len(b) == 0 {
		return opening{}, errIncomplete
	}
	if looksLikeTLS(b) {
		h, err := parseClientHello(b)
		switch {
		case errors.Is(err, errIncomplete):
			return opening{kind: kindUnreadable, looksTLS: true}, errIncomplete
		case err != nil:
			return opening{kind: kindUnreadable, looksTLS: true}, nil
		}
		return opening{kind: kindTLS, clientHello: h}, nil
	}
	return classifyLine(bytes.TrimLeft(b, "\r\n")) // lenient servers ignore these line ends too
}

func classifyLine(b []byte) (opening, error) {
	line, _, complete := bytes.Cut(b, []byte("\n"))
	for i, c := range line {
		if c < ' ' && c != '\t' && c != '\r' || c == 0x7f {
			if bytes.ContainsAny(line[:i], " \t") {
				return opening{kind: kindUnreadable}, nil
			}
			return opening{kind: kindTCP}, nil
		}
	}
	switch {
	case !complete:
		return opening{kind: kindUnreadable}, errIncomplete
	case bytes.HasPrefix(line, []byte("PRI * HTTP/2")):
		return opening{kind: kindHTTP2}, nil
	case bytes.Contains(line, []byte("HTTP/")):
		return opening{kind: kindHTTP}, nil
	}
	return opening{kind: kindTCP}, nil
}

// readOpening reads the client's first bytes until they are unambiguous or reach
// maxOpening, the client pauses or ends, a time limit expires, or the server sends bytes
// first. The bytes remain in prefix.
func (c *connection) readOpening() opening {
	defer c.finishOpening()
	silence := c.uplink.gateway.config.IdleTimeout
	if c.dialFailed() {
		silence = openingPause
	}
	var limit time.Time // time limit of the opening, set after its first byte
	for {
		o, err := classify(c.prefix)
		if err == nil || len(c.prefix) >= maxOpening {
			return o
		}
		deadline := time.Now().Add(silence)
		if len(c.prefix) > 0 {
			if limit.IsZero() {
				limit = time.Now().Add(openingLimit)
			}
			deadline = limit
			if !c.isBoundToName() && !o.looksTLS {
				deadline = time.Now().Add(openingPause)
			}
		}
		switch err := c.readMore(deadline); {
		case err == nil:
		case errors.Is(err, errServerFirst) && c.dialFailed():
			silence = openingPause
		case errors.Is(err, os.ErrDeadlineExceeded) && len(c.prefix) == 0:
			return opening{kind: kindTCP}
		default: // the server sent bytes first, or the client sends no more
			return o
		}
	}
}
