package egress

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/stint-dev/stint/internal/egress/policy"
)

var (
	errIncomplete = errors.New("egress: more bytes are needed")
	errMalformed  = errors.New("egress: not a ClientHello")
)

// clientHello contains the fields of a TLS ClientHello that egress uses.
type clientHello struct {
	serverName string // canonical; empty if the client sent none
	encrypted  bool   // an extension may contain an encrypted ClientHello or server name
}

// Record and message types of TLS, and extensions of its ClientHello.
const (
	recordHandshake    = 22
	messageClientHello = 1
	extServerName      = 0
	extEncryptedHello  = 0xfe0d
	extEncryptedName   = 0xffce
)

// looksLikeTLS reports whether b, which must not be empty, begins like a TLS record of
// any type.
func looksLikeTLS(b []byte) bool {
	return b[0] >= 20 && b[0] <= 24 && (len(b) < 2 || b[1] == 3)
}

// parseClientHello parses a ClientHello from the TLS records at the beginning of b. If
// b may be an incomplete ClientHello, it returns errIncomplete. If b does not begin with
// a valid ClientHello, or if an incomplete ClientHello exceeds maxOpening bytes, it
// returns errMalformed.
func parseClientHello(b []byte) (clientHello, error) {
	var message []byte
	for {
		if n, ok := messageLength(message); ok && len(message) >= n {
			return parseMessage(message[4:n])
		}
		if len(message) > 0 && message[0] != messageClientHello || len(message) > maxOpening {
			return clientHello{}, errMalformed
		}
		if len(b) < 5 {
			if len(b) > 0 && b[0] != recordHandshake || len(b) > 1 && b[1] != 3 {
				return clientHello{}, errMalformed
			}
			return clientHello{}, errIncomplete
		}
		n := int(binary.BigEndian.Uint16(b[3:]))
		if b[0] != recordHandshake || b[1] != 3 || n == 0 || n > 1<<14 {
			return clientHello{}, errMalformed
		}
		take := min(n, len(b)-5)
		message = append(message, b[5:5+take]...)
		b = b[5+take:]
		if take < n {
			if m, ok := messageLength(message); ok && len(message) >= m {
				continue
			}
			if len(message) > 0 && message[0] != messageClientHello {
				return clientHello{}, errMalformed
			}
			return clientHello{}, errIncomplete
		}
	}
}

// messageLength returns the length in bytes of a ClientHello message with its header.
// It returns false if m is shorter than the header or is another message.
func messageLength(m []byte) (int, bool) {
	if len(m) < 4 || m[0] != messageClientHello {
		return 0, false
	}
	return 4 + int(m[1])<<16 + int(m[2])<<8 + int(m[3]), true
}

// vectorReader reads the numbers and vectors of a TLS message. After a read beyond the
// end of b, ok is false.
type vectorReader struct {
	b  []byte
	ok bool
}

func (r *vectorReader) take(n int) []byte {
	if !r.ok || n > len(r.b) {
		r.ok = false
		return nil
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *vectorReader) number(bytes int) (n int) {
	for _, x := range r.take(bytes) {
		n = n<<8 | int(x)
	}
	return n
}

// vector reads a length, which is encoded in lengthBytes bytes, and returns the
// following bytes of that length.
func (r *vectorReader) vector(lengthBytes int) []byte { return r.take(r.number(lengthBytes)) }

func parseMessage(m []byte) (h clientHello, err error) {
	r := vectorReader{m, true}
	r.take(2 + 32) // version, random
	r.vector(1)    // session ID
	r.vector(2)    // cipher suites
	r.vector(1)    // compression methods
	if r.ok && len(r.b) == 0 {
		return h, nil // without extensions
	}
	x := vectorReader{r.vector(2), true}
	if !r.ok || len(r.b) > 0 {
		return clientHello{}, errMalformed
	}
	seen := map[int]bool{}
	for len(x.b) > 0 {
		kind, data := x.number(2), x.vector(2)
		if !x.ok || seen[kind] {
			return clientHello{}, errMalformed
		}
		seen[kind] = true
		switch kind {
		case extServerName:
			if h.serverName, err = parseServerName(data); err != nil {
				return clientHello{}, err
			}
		case extEncryptedHello, extEncryptedName:
			h.encrypted = true
		}
	}
	return h, nil
}

// parseServerName returns the canonical name in a server_name extension, which must
// contain exactly one name.
func parseServerName(data []byte) (string, error) {
	r := vectorReader{data, true}
	names := vectorReader{r.vector(2), true}
	kind, name := names.number(1), names.vector(2)
	if !r.ok || !names.ok || len(r.b) > 0 || len(names.b) > 0 || kind != 0 {
		return "", errMalformed
	}
	canonical, err := policy.CanonicalDomain(string(name))
	if err != nil || strings.HasSuffix(string(name), "..") {
		return "", errMalformed
	}
	return canonical, nil
}
