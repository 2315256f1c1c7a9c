package proxy

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/masking"
)

const ruleSecret = "secret value"

// broker replaces placeholders by the values of secrets in requests to one host.
type broker struct {
	secrets  []policy.Secret // in descending order of the placeholders' lengths
	replacer *strings.Replacer
	redactor func() *masking.Masker // returns the redactor, which the first call creates
}

// newBroker returns the broker for a host. It returns nil if no secret may be sent to the
// host, or if the connection to a host other than the worker is not encrypted.
func newBroker(h *Handler, host string, port uint16) *broker {
	if h.Scheme != "https" && host != stint.HostAlias {
		return nil
	}
	var secrets []policy.Secret
	for _, s := range h.Secrets {
		if s.Placeholder != "" && s.Placeholder != s.Value && policy.HostMatches(s.Hosts, host, port) {
			secrets = append(secrets, s)
		}
	}
	if len(secrets) == 0 {
		return nil
	}
	slices.SortStableFunc(secrets, func(a, b policy.Secret) int { return cmp.Compare(len(b.Placeholder), len(a.Placeholder)) })
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s.Placeholder, s.Value)
	}
	return &broker{
		secrets: secrets, replacer: strings.NewReplacer(pairs...),
		redactor: sync.OnceValue(func() *masking.Masker { return h.Redactors.of(secrets) }),
	}
}

// Redactors caches the redactors of a run's secrets, so that all connections to a host
// share a redactor. It is safe for concurrent use. A nil *Redactors caches nothing.
type Redactors struct {
	mu        sync.Mutex // guards redactors
	redactors map[string]*masking.Masker
}

// of returns the redactor of a list of secrets. Secrets with equal placeholders are
// equal, so the placeholders are the key of the cache.
func (c *Redactors) of(secrets []policy.Secret) *masking.Masker {
	var key strings.Builder
	var values []masking.Secret
	for _, s := range secrets {
		key.WriteString(s.Placeholder + "\x00")
		// A value that is not a valid header value is never sent, so a response
		// cannot contain it.
		if httpguts.ValidHeaderFieldValue(s.Value) {
			values = append(values, masking.Secret{Value: s.Value, Replacement: s.Placeholder})
		}
	}
	if c == nil {
		return masking.NewRedactor(values)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.redactors[key.String()]
	if r == nil {
		if c.redactors == nil {
			c.redactors = map[string]*masking.Masker{}
		}
		r = masking.NewRedactor(values)
		c.redactors[key.String()] = r
	}
	return r
}

// header returns a header's value with secrets instead of their placeholders, and the
// names of the inserted secrets. If a secret cannot be sent, it returns a fault.
func (b *broker) header(name, value string) (out string, inserted []string, f *fault) {
	if name == "Authorization" {
		if out, inserted, f := b.basic(value); len(inserted) > 0 || f != nil {
			return out, inserted, f
		}
	}
	for i := range b.secrets {
		if strings.Contains(value, b.secrets[i].Placeholder) {
			inserted = append(inserted, b.secrets[i].Name)
			if f := checkSecret(&b.secrets[i]); f != nil {
				return "", nil, f
			}
		}
	}
	if len(inserted) == 0 {
		return value, nil, nil
	}
	return b.replacer.Replace(value), inserted, nil
}

// basic is like header for the base64 text of Basic authorization. If the value has
// another scheme or is malformed, basic inserts nothing.
func (b *broker) basic(value string) (out string, inserted []string, f *fault) {
	scheme, encoded, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") {
		return value, nil, nil
	}
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(encoded), "="))
	if err != nil {
		return value, nil, nil
	}
	out, inserted, f = b.header("", string(plain))
	if len(inserted) == 0 {
		return value, nil, f
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(out)), inserted, nil
}

// query is like header for the query of a URL. It percent-encodes the secrets.
func (b *broker) query(q string) (replaced string, inserted []string, f *fault) {
	var out strings.Builder
	done := 0
	for i := 0; i < len(q); i++ {
		s, n := b.placeholderAt(q[i:])
		if n == 0 {
			continue
		}
		if f := checkSecret(s); f != nil {
			return "", nil, f
		}
		inserted = append(inserted, s.Name)
		out.WriteString(q[done:i])
		out.WriteString(escapeQuery(s.Value))
		done = i + n
		i = done - 1
	}
	if done == 0 {
		return q, nil, nil
	}
	out.WriteString(q[done:])
	return out.String(), inserted, nil
}

// placeholderAt returns the secret with the placeholder at the beginning of q, and the
// length of the placeholder in q. Each byte of the placeholder may be percent-encoded,
// and a space may be +. If q does not begin with a placeholder, the length is 0.
func (b *broker) placeholderAt(q string) (*policy.Secret, int) {
	for i := range b.secrets {
		if n := encodedPrefix(q, b.secrets[i].Placeholder); n > 0 {
			return &b.secrets[i], n
		}
	}
	return nil, 0
}

func encodedPrefix(q, placeholder string) int {
	at := 0
	for i := range len(placeholder) {
		c := placeholder[i]
		switch {
		case at < len(q) && (q[at] == c && c != '%' || q[at] == '+' && c == ' '):
			at++
		case isEscape(q[at:], c):
			at += 3
		case at < len(q) && q[at] == c: // a % that does not begin an escape
			at++
		default:
			return 0
		}
	}
	return at
}

// isEscape reports whether q begins with the percent-encoding of c.
func isEscape(q string, c byte) bool {
	if len(q) < 3 || q[0] != '%' {
		return false
	}
	n, err := strconv.ParseUint(q[1:3], 16, 8)
	return err == nil && byte(n) == c
}

// escapeQuery percent-encodes all bytes except unreserved characters.
func escapeQuery(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// checkSecret returns a fault if the secret's value is not a valid header value.
func checkSecret(s *policy.Secret) *fault {
	if httpguts.ValidHeaderFieldValue(s.Value) {
		return nil
	}
	return &fault{status: 400, rule: ruleSecret, message: "The secret " + s.Name + " cannot be sent: its value contains a line end or another character that is invalid in headers."}
}
