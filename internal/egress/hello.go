package egress

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/stint-dev/stint"
)

var (
	errMore   = errors.New("egress: more bytes are needed")
	errBroken = errors.New("egress: not a ClientHello")
)

// hello is what a ClientHello tells.
type hello struct {
	serverName string // canonical; empty when none is given
	hidden     bool   // another one may be encrypted within
}

// Record and message types of TLS, and extensions of its ClientHello.
const (
	recordHandshake    = 22
	messageClientHello = 1
	extServerName      = 0
	extEncryptedHello  = 0xfe0d
	extEncryptedName   = 0xffce
)

// looksLikeTLS reports whether b begins as a TLS record does, of whatever kind.
func looksLikeTLS(b []byte) bool {
	return b[0] >= 20 && b[0] <= 24 && (len(b) < 2 || b[1] == 3)
}

// parseHello reads a ClientHello from the records at the beginning of b. It is
// errMore while b is a part of one, errBroken when it will never be one.
func parseHello(b []byte) (hello, error) {
	var message []byte
	for {
		if n, ok := messageLength(message); ok && len(message) >= n {
			return parseMessage(message[4:n])
		}
		if len(message) > 0 && message[0] != messageClientHello || len(message) > maxOpening {
			return hello{}, errBroken
		}
		if len(b) < 5 {
			if len(b) > 0 && b[0] != recordHandshake || len(b) > 1 && b[1] != 3 {
				return hello{}, errBroken
			}
			return hello{}, errMore
		}
		n := int(binary.BigEndian.Uint16(b[3:]))
		if b[0] != recordHandshake || b[1] != 3 || n == 0 || n > 1<<14 {
			return hello{}, errBroken
		}
		take := min(n, len(b)-5)
		message = append(message, b[5:5+take]...)
		b = b[5+take:]
		if take < n {
			if m, ok := messageLength(message); ok && len(message) >= m {
				continue
			}
			if len(message) > 0 && message[0] != messageClientHello {
				return hello{}, errBroken
			}
			return hello{}, errMore
		}
	}
}

// messageLength is that of a handshake message with its header.
func messageLength(m []byte) (int, bool) {
	if len(m) < 4 || m[0] != messageClientHello {
		return 0, false
	}
	return 4 + int(m[1])<<16 + int(m[2])<<8 + int(m[3]), true
}

// cursor reads vectors; after the first that does not fit, ok is false.
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.ok = false
		return nil
	}
	head := c.b[:n]
	c.b = c.b[n:]
	return head
}

func (c *cursor) number(bytes int) (n int) {
	for _, x := range c.take(bytes) {
		n = n<<8 | int(x)
	}
	return n
}

// vector reads what follows its own length of so many bytes.
func (c *cursor) vector(lengthBytes int) []byte { return c.take(c.number(lengthBytes)) }

func parseMessage(m []byte) (h hello, err error) {
	c := cursor{m, true}
	c.take(2 + 32) // version, random
	c.vector(1)    // session
	c.vector(2)    // cipher suites
	c.vector(1)    // compression
	if c.ok && len(c.b) == 0 {
		return h, nil // as clients without extensions do
	}
	x := cursor{c.vector(2), true}
	if !c.ok || len(c.b) > 0 {
		return hello{}, errBroken
	}
	seen := map[int]bool{}
	for len(x.b) > 0 {
		kind, data := x.number(2), x.vector(2)
		if !x.ok || seen[kind] {
			return hello{}, errBroken
		}
		seen[kind] = true
		switch kind {
		case extServerName:
			if h.serverName, err = parseServerName(data); err != nil {
				return hello{}, err
			}
		case extEncryptedHello, extEncryptedName:
			h.hidden = true
		}
	}
	return h, nil
}

// parseServerName reads the one name of the extension.
func parseServerName(data []byte) (string, error) {
	c := cursor{data, true}
	names := cursor{c.vector(2), true}
	kind, name := names.number(1), names.vector(2)
	if !c.ok || !names.ok || len(c.b) > 0 || len(names.b) > 0 || kind != 0 {
		return "", errBroken
	}
	canonical, err := stint.CanonicalDomain(string(name))
	if err != nil || strings.HasSuffix(string(name), "..") {
		return "", errBroken
	}
	return canonical, nil
}
