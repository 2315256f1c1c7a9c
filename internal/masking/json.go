package masking

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonStyle describes how a JSON library escapes strings. Every style escapes
// quotation marks, backslashes, and control characters.
type jsonStyle struct {
	also  string // other characters that are escaped as \uXXXX
	slash bool   // escape "/" as \/
	ascii bool   // escape non-ASCII characters as \uXXXX
	long  bool   // write \u000a and \u0022 instead of \n and \"
	upper bool   // write hexadecimal digits in upper case
}

var jsonStyles = []jsonStyle{
	{},                        // JavaScript, Rust
	{also: "<>&\u2028\u2029"}, // Go
	{also: "\u2028\u2029"},    // Go without HTML escapes
	{also: "<>&\u2028\u2029", slash: true},
	{also: "\u2028\u2029", slash: true},
	{ascii: true},              // Python
	{ascii: true, slash: true}, // PHP
	{slash: true},              // PHP, Swift
	{ascii: true, upper: true}, // Java
	{long: true},               // simple encoders
	{long: true, upper: true},  // the same in upper case
	{also: "<>&'\u2028\u2029"}, // Ruby on Rails
	{also: "\"<>&'+`\x7f", ascii: true, upper: true}, // .NET
}

// appendJSON appends patterns for the JSON encodings of s, if a style escapes a
// character of s. The last pattern is for JSON text inside a JSON string.
func appendJSON(all []pattern, s string) []pattern {
	if !strings.ContainsFunc(s, isEscaped) {
		return all
	}
	for _, style := range jsonStyles {
		all = append(all, pattern{style.escape(s), style.escape, false})
	}
	twice := func(s string) string { return jsonStyles[0].escape(jsonStyles[0].escape(s)) }
	return append(all, pattern{twice(s), twice, false})
}

// isEscaped reports whether at least one style may escape r.
func isEscaped(r rune) bool {
	return r < ' ' || r > '~' || strings.IndexByte("\"\\/<>&'+`", byte(r)) >= 0
}

// escape returns the JSON string of s without quotation marks around it. Bytes
// that are not valid UTF-8 become \ufffd, as in encoding/json.
func (j jsonStyle) escape(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i, r := range s {
		short := -1
		if r < utf8.RuneSelf {
			short = strings.IndexByte("\"\\\b\f\n\r\t", byte(r))
		}
		switch {
		case strings.ContainsRune(j.also, r), j.ascii && r >= utf8.RuneSelf, j.long && (short >= 0 || r < ' '):
			j.unicode(&b, r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteString(`\ufffd`)
		case short >= 0:
			b.WriteString(`\` + `"\bfnrt`[short:short+1])
		case r < ' ':
			j.unicode(&b, r)
		case j.slash && r == '/':
			b.WriteString(`\/`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (j jsonStyle) unicode(b *strings.Builder, r rune) {
	format := `\u%04x`
	if j.upper {
		format = `\u%04X`
	}
	units := utf16.Encode([]rune{r})
	for _, u := range units {
		fmt.Fprintf(b, format, u)
	}
}

// MaskJSON returns v with the secrets in all strings and keys replaced. A number
// that contains a secret becomes a string. v is a decoded JSON value or a value
// that encoding/json can encode; for any other value, MaskJSON returns Mask. v is
// not changed, and the result may share memory with v.
func (m *Masker) MaskJSON(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		return m.Mask(v)
	case json.Number:
		if masked := m.Mask(v.String()); masked != v.String() {
			return masked
		}
		return v
	case map[string]any:
		return m.maskMap(v)
	case []any:
		masked := make([]any, len(v))
		for i, element := range v {
			masked[i] = m.MaskJSON(element)
		}
		return masked
	}
	generic, err := toGeneric(v)
	if err != nil {
		return Mask
	}
	return m.MaskJSON(generic)
}

// maskMap masks keys and values. If keys are equal after masking, it appends
// numbers to them, so that the result has all members.
func (m *Masker) maskMap(v map[string]any) map[string]any {
	masked := make(map[string]any, len(v))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		name := m.Mask(key)
		for n := 2; ; n++ {
			if _, exists := masked[name]; !exists {
				break
			}
			name = fmt.Sprintf("%s %d", m.Mask(key), n)
		}
		masked[name] = m.MaskJSON(v[key])
	}
	return masked
}

func toGeneric(v any) (generic any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&generic)
	return generic, err
}
