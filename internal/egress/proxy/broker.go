package proxy

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/policy"
)

const ruleSecret = "secret value"

// broker puts secrets in where their placeholders stand, for one host.
type broker struct {
	secrets []policy.Secret // longer placeholders first
	replace *strings.Replacer
	conceal func() *concealer // made when the first answer comes
}

// newBroker gives the broker for a host, nil where no secret is for it.
func newBroker(secrets []policy.Secret, scheme, host string, port uint16) *broker {
	if scheme != "https" && host != stint.HostAlias {
		return nil
	}
	var mine []policy.Secret
	for _, s := range secrets {
		if s.Placeholder != "" && s.Placeholder != s.Value && policy.HostMatches(s.Hosts, host, port) {
			mine = append(mine, s)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	slices.SortStableFunc(mine, func(a, b policy.Secret) int { return cmp.Compare(len(b.Placeholder), len(a.Placeholder)) })
	pairs := make([]string, 0, 2*len(mine))
	for _, s := range mine {
		pairs = append(pairs, s.Placeholder, s.Value)
	}
	return &broker{
		secrets: mine, replace: strings.NewReplacer(pairs...),
		conceal: sync.OnceValue(func() *concealer { return newConcealer(mine) }),
	}
}

// header gives a header's value with secrets in it, and whether there are any.
func (b *broker) header(name, value string) (string, bool, *fault) {
	if name == "Authorization" {
		if out, put, f := b.basic(value); put || f != nil {
			return out, put, f
		}
	}
	put := false
	for _, s := range b.secrets {
		if strings.Contains(value, s.Placeholder) {
			put = true
			if f := checkSecret(&s); f != nil {
				return "", false, f
			}
		}
	}
	if !put {
		return value, false, nil
	}
	return b.replace.Replace(value), true, nil
}

// basic looks into the base64 of "Basic …".
func (b *broker) basic(value string) (string, bool, *fault) {
	scheme, encoded, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") {
		return value, false, nil
	}
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(encoded), "="))
	if err != nil {
		return value, false, nil
	}
	out, put, f := b.header("", string(plain))
	if !put {
		return value, false, f
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(out)), true, nil
}

// query gives a URL's query with secrets in it, percent-encoded.
func (b *broker) query(q string) (string, bool, *fault) {
	var out strings.Builder
	done := 0
	for i := 0; i < len(q); i++ {
		s, n := b.placeholderAt(q[i:])
		if n == 0 {
			continue
		}
		if f := checkSecret(s); f != nil {
			return "", false, f
		}
		out.WriteString(q[done:i])
		out.WriteString(escape(s.Value, "-_.~", "0123456789ABCDEF"))
		done = i + n
		i = done - 1
	}
	if done == 0 {
		return q, false, nil
	}
	out.WriteString(q[done:])
	return out.String(), true, nil
}

// placeholderAt finds the longest placeholder that q begins with, each byte of
// it as it is or percent-encoded, and how many bytes it takes there.
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
		case at+2 < len(q) && q[at] == '%' && unhex(q[at+1])<<4|unhex(q[at+2]) == int(c):
			at += 3
		case at < len(q) && q[at] == c: // a % that encodes nothing
			at++
		default:
			return 0
		}
	}
	return at
}

// unhex gives the value of a hexadecimal digit, far too much for others.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return 1 << 16
}

// escape percent-encodes all but letters, digits and safe.
func escape(s, safe, digits string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte(safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// check refuses a value that would be more than part of a header's value.
func checkSecret(s *policy.Secret) *fault {
	if httpguts.ValidHeaderFieldValue(s.Value) {
		return nil
	}
	return &fault{status: 400, rule: ruleSecret, message: "The secret " + s.Name + " cannot be sent: its value has a line end or another character that no header may have."}
}
