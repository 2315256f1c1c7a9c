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

// jsonStyle is a way in which libraries write strings in JSON. Quotation
// marks, backslashes and control characters are always escaped.
type jsonStyle struct {
	also  string // further characters written \uXXXX
	slash bool   // "/" is written \/
	ascii bool   // what is no ASCII is written \uXXXX
	long  bool   // \u000a and \u0022 instead of \n and \"
	upper bool   // hexadecimal digits in upper case
}

var jsonStyles = []jsonStyle{
	{},                         // JavaScript, Rust, Go without HTML escapes
	{also: "<>&\u2028\u2029"},  // Go
	{ascii: true},              // Python
	{ascii: true, slash: true}, // PHP
	{slash: true},              // PHP, Swift
	{ascii: true, upper: true}, // Java
	{long: true},               // simple writers
	{long: true, upper: true},  // and more of them
	{also: "<>&'\u2028\u2029"}, // Ruby on Rails
	{also: "\"<>&'+`\x7f", ascii: true, upper: true}, // .NET
}

// appendJSON adds how s is written in JSON. What is no UTF-8 cannot be.
func appendJSON(all []string, s string) []string {
	if !utf8.ValidString(s) || !strings.ContainsFunc(s, escapedBySome) {
		return all
	}
	for _, style := range jsonStyles {
		all = append(all, style.escape(s))
	}
	plain := jsonStyles[0]
	return append(all, plain.escape(plain.escape(s)))
}

// escapedBySome reports whether one of the styles changes r.
func escapedBySome(r rune) bool {
	return r < ' ' || r > '~' || strings.IndexByte("\"\\/<>&'+`", byte(r)) >= 0
}

// escape writes s without quotation marks around it.
func (j jsonStyle) escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		short := -1
		if r < utf8.RuneSelf {
			short = strings.IndexByte("\"\\\b\f\n\r\t", byte(r))
		}
		switch {
		case strings.ContainsRune(j.also, r), j.ascii && r >= utf8.RuneSelf, j.long && (short >= 0 || r < ' '):
			j.unicode(&b, r)
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

// MaskJSON gives v with secrets replaced in all strings and keys, and with a
// mask for numbers that show one. v is what encoding/json makes of JSON, or
// anything that it can write; what it cannot becomes a mask. v is not changed
// and may be shared with the result.
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
	generic, err := throughJSON(v)
	if err != nil {
		return Mask
	}
	return m.MaskJSON(generic)
}

// maskMap keeps every member, also where two keys become the same.
func (m *Masker) maskMap(v map[string]any) map[string]any {
	masked := make(map[string]any, len(v))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		name := m.Mask(key)
		for n := 2; ; n++ {
			if _, taken := masked[name]; !taken {
				break
			}
			name = fmt.Sprintf("%s %d", m.Mask(key), n)
		}
		masked[name] = m.MaskJSON(v[key])
	}
	return masked
}

func throughJSON(v any) (generic any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&generic)
	return generic, err
}
