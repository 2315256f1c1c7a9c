package proxy

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stint-dev/stint/internal/egress/policy"
)

const (
	minConcealed = 4 // bytes of a value that is looked for
	minEncoded   = 8 // bytes of a value that is looked for in base64
)

// concealer puts placeholders where values stand. It looks for all spellings
// at once, after Wu and Manber (1994): the last two bytes of a window as long
// as the shortest spelling tell how far it can move without missing one. It is
// immutable.
type concealer struct {
	pairs  []spelling // longer ones first
	min    int        // length of the shortest
	max    int        // of the longest
	shift  [1 << 12]uint8
	starts [256]bool // bytes that spellings begin with
}

type spelling struct{ from, to string }

func newConcealer(secrets []policy.Secret) *concealer {
	c := &concealer{}
	for _, s := range secrets {
		// A value that cannot be sent cannot come back.
		if len(s.Value) >= minConcealed && httpguts.ValidHeaderFieldValue(s.Value) {
			c.pairs = appendSpellings(c.pairs, s)
		}
	}
	slices.SortStableFunc(c.pairs, func(a, b spelling) int {
		return cmp.Or(cmp.Compare(len(b.from), len(a.from)), cmp.Compare(a.from, b.from))
	})
	c.pairs = slices.CompactFunc(c.pairs, func(a, b spelling) bool { return a.from == b.from })
	if len(c.pairs) > 0 {
		c.prepare()
	}
	return c
}

func (c *concealer) prepare() {
	c.max, c.min = len(c.pairs[0].from), len(c.pairs[len(c.pairs)-1].from)
	far := uint8(min(c.min-1, 255))
	for i := range c.shift {
		c.shift[i] = far
	}
	for _, p := range c.pairs {
		c.starts[p.from[0]] = true
		for end := 1; end < c.min; end++ {
			h := block(p.from[end-1], p.from[end])
			c.shift[h] = min(c.shift[h], uint8(min(c.min-1-end, 255)))
		}
	}
}

func block(a, b byte) uint16 { return (uint16(a)<<5 ^ uint16(b)) & (1<<12 - 1) }

// appendSpellings adds the ways in which a value comes back by accident.
func appendSpellings(all []spelling, s policy.Secret) []spelling {
	all = append(all, spelling{s.Value, s.Placeholder})
	for _, safe := range []string{"-_.~", "-_.~$&+,/:;=@", "-_.!~*'()"} { // forms, paths, encodeURIComponent
		for _, digits := range []string{"0123456789ABCDEF", "0123456789abcdef"} {
			from, to := escape(s.Value, safe, digits), escape(s.Placeholder, safe, digits)
			all = append(all, spelling{from, to}, spelling{strings.ReplaceAll(from, "%20", "+"), to})
		}
	}
	for _, html := range []bool{false, true} {
		from, to := escapeJSON(s.Value, html), escapeJSON(s.Placeholder, html)
		all = append(all, spelling{from, to}, spelling{strings.ReplaceAll(from, "/", `\/`), to})
	}
	if len(s.Value) >= minEncoded {
		for before := range 3 {
			all = append(all, inBase64(s, base64.StdEncoding, before), inBase64(s, base64.URLEncoding, before))
		}
	}
	return all
}

func escapeJSON(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(s) // a string can be encoded
	return strings.Trim(strings.TrimSuffix(b.String(), "\n"), `"`)
}

// inBase64 gives the characters that stand for the value, and it alone, when
// before other bytes come before it in its group of three. The replacement is
// as long, so that the text around it still decodes: the placeholder, cut or
// repeated.
func inBase64(s policy.Secret, e *base64.Encoding, before int) spelling {
	place := strings.Repeat(s.Placeholder, len(s.Value)/len(s.Placeholder)+1)[:len(s.Value)]
	from, to := (before*8+5)/6, (before+len(s.Value))*8/6
	cut := func(text string) string {
		return e.EncodeToString(append(make([]byte, before), text...))[from:to]
	}
	return spelling{cut(s.Value), cut(place)}
}

// find gives the first spelling in text: where, and which; -1 for none.
func (c *concealer) find(text []byte) (int, *spelling) {
	if len(c.pairs) == 0 {
		return -1, nil
	}
	for end := c.min - 1; end < len(text); {
		if n := c.shift[block(text[end-1], text[end])]; n > 0 {
			end += int(n)
			continue
		}
		at := end - c.min + 1
		if p := c.at(text[at:]); p != nil {
			return at, p
		}
		end++
	}
	return -1, nil
}

// at gives the longest spelling that text begins with.
func (c *concealer) at(text []byte) *spelling {
	if !c.starts[text[0]] {
		return nil
	}
	for i := range c.pairs {
		if p := &c.pairs[i]; len(p.from) <= len(text) && string(text[:len(p.from)]) == p.from {
			return p
		}
	}
	return nil
}

// open gives the place from which text could be the beginning of a spelling,
// its length for none.
func (c *concealer) open(text []byte) int {
	for i := max(0, len(text)-c.max+1); i < len(text); i++ {
		if !c.starts[text[i]] {
			continue
		}
		for _, p := range c.pairs {
			if rest := text[i:]; len(rest) < len(p.from) && p.from[:len(rest)] == string(rest) {
				return i
			}
		}
	}
	return len(text)
}

// text conceals what is there as a whole.
func (c *concealer) text(s string) string {
	if at, _ := c.find([]byte(s)); at < 0 {
		return s
	}
	var b strings.Builder
	t := concealed{c: c, w: &b}
	_, _ = t.Write([]byte(s)) // a Builder takes everything
	_ = t.Close()
	return b.String()
}

// err conceals what an error says, which may quote the server.
func (c *concealer) err(err error) error {
	if s := c.text(err.Error()); s != err.Error() {
		return errors.New(s)
	}
	return err
}

// concealed passes on what is written, at once but for an end that may be the
// beginning of a value; Close passes that on.
type concealed struct {
	c    *concealer
	w    io.Writer
	held []byte
}

func (t *concealed) Write(p []byte) (int, error) {
	if err := t.pass(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (t *concealed) Close() error { return t.pass(nil, true) }

func (t *concealed) pass(p []byte, last bool) error {
	text := p
	if len(t.held) > 0 {
		t.held = append(t.held, p...)
		text = t.held
	}
	open := len(text)
	if !last {
		open = t.c.open(text)
	}
	from := 0
	for {
		at, s := t.c.find(text[from:])
		if at < 0 || from+at >= open {
			break
		}
		if err := t.write(text[from : from+at]); err != nil {
			return err
		}
		if _, err := io.WriteString(t.w, s.to); err != nil {
			return err
		}
		if from += at + len(s.from); from > open { // what seemed open was part of this
			open = from + t.c.open(text[from:])
		}
	}
	if err := t.write(text[from:open]); err != nil {
		return err
	}
	t.held = append(t.held[:0], text[open:]...)
	return nil
}

func (t *concealed) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := t.w.Write(p)
	return err
}
