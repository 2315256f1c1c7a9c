package masking

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// pattern is an encoded secret to find. encode is the encoding that produced text. A
// redactor also applies encode to the replacement.
type pattern struct {
	text   string
	encode func(string) string
	// keepLength is true for encodings in which a replacement must have the same
	// length as text, so that the surrounding text can still be decoded.
	keepLength bool
}

// maskPatterns returns the sorted and distinct encodings of all values that have at
// least minLength characters.
func maskPatterns(values []string) []string {
	var all []string
	for _, v := range values {
		if !hasLength(v, minLength) {
			continue
		}
		for _, form := range forms(v) {
			for _, p := range encodings(form, true) {
				all = append(all, p.text)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// redactPatterns returns the sorted and distinct encodings of all secrets that have at
// least minLength bytes, and the replacement of each. If two secrets have the same
// encoding, the replacement is that of the first secret.
func redactPatterns(secrets []Secret) (patterns, replacements []string) {
	type pair struct {
		encode      func(string) string
		replacement string // before encoding
	}
	found := map[string]pair{}
	for _, s := range secrets {
		if len(s.Value) < minLength {
			continue
		}
		for _, form := range forms(s.Value) {
			sameLength := strings.Repeat(s.Replacement, len(form)/len(s.Replacement)+1)[:len(form)]
			for _, p := range encodings(form, len(s.Value) >= minBase64) {
				if _, exists := found[p.text]; exists {
					continue
				}
				found[p.text] = pair{p.encode, s.Replacement}
				if p.keepLength {
					found[p.text] = pair{p.encode, sameLength}
				}
			}
		}
	}
	patterns = slices.Sorted(maps.Keys(found))
	for _, text := range patterns {
		replacements = append(replacements, found[text].encode(found[text].replacement))
	}
	return patterns, replacements
}

// forms returns the forms in which a program may print value without an encoding:
// unchanged, with other line ends, without surrounding white space, and each long line
// alone.
func forms(value string) []string {
	unix := strings.ReplaceAll(value, "\r\n", "\n")
	all := []string{value, unix, strings.ReplaceAll(unix, "\n", "\r\n")}
	for _, form := range slices.Clone(all) {
		if core := strings.TrimSpace(form); hasLength(core, minLength) {
			all = append(all, core)
		}
	}
	for line := range strings.SplitSeq(unix, "\n") {
		if line = strings.TrimSpace(line); hasLength(line, minLine) {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// encodings returns the encodings of s, of which the first is s itself. It omits base64
// if withBase64 is false.
func encodings(s string, withBase64 bool) []pattern {
	all := append(make([]pattern, 0, 64), pattern{text: s, encode: func(s string) string { return s }})
	if withBase64 {
		all = appendBase64(all, s)
	}
	for _, encode := range []func(string) string{
		func(s string) string { return hex.EncodeToString([]byte(s)) },
		func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	} {
		encoded := encode(s)
		all = append(all, pattern{encoded, encode, true})
		all = appendLines(all, encoded, encode, 60)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !isUnreserved(r) }) {
		all = appendURL(all, s)
	}
	return appendJSON(all, s)
}

// appendURL appends the URL encodings of s.
func appendURL(all []pattern, s string) []pattern {
	for _, style := range urlStyles {
		for _, digits := range []string{"0123456789ABCDEF", "0123456789abcdef"} {
			encode := func(s string) string { return escapeURL(s, style.safe, style.space, digits) }
			all = append(all, pattern{encode(s), encode, false})
		}
	}
	return all
}

// isUnreserved reports whether all styles of URL encoding leave r unescaped.
func isUnreserved(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.'
}

// appendBase64 appends the base64 encodings of s at each of the three alignments within
// a longer text. They omit characters that also depend on bytes before s. At the end
// there are two cases: s may be followed by more text, in which case characters that
// depend on it are omitted; or s may be at the end of the text, with or without
// padding. An alignment is left out if fewer than minLength characters depend only on s.
func appendBase64(all []pattern, s string) []pattern {
	for before := range 3 {
		from := (before*4 + 2) / 3         // index of the first character that depends only on s
		upTo := (before + len(s)) * 4 / 3  // end of the characters that depend only on s
		raw := ((before+len(s))*4 + 2) / 3 // end of the encoding without padding if s ends the text
		if upTo-from < minLength {
			continue
		}
		text := append(make([]byte, before, before+len(s)), s...)
		standard := base64.StdEncoding.EncodeToString(text)
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			encoded := encoding.EncodeToString(text)
			if encoding == base64.URLEncoding && encoded == standard {
				continue
			}
			for _, end := range slices.Compact([]int{upTo, raw, len(encoded)}) {
				encode := func(s string) string {
					return encoding.EncodeToString(append(make([]byte, before, before+len(s)), s...))[from:end]
				}
				all = append(all, pattern{encoded[from:end], encode, true})
				if before == 0 && end == upTo {
					all = appendLines(all, encoded[:end], encode, 76)
					all = appendLines(all, encoded[:end], encode, 64)
				}
			}
		}
	}
	return all
}

// appendLines appends the lines of encoded if it is wrapped at a number of columns. It
// omits lines of less than minLine characters, and does nothing if encoded has only one
// line.
func appendLines(all []pattern, encoded string, encode func(string) string, columns int) []pattern {
	if len(encoded) <= columns {
		return all
	}
	for from := 0; from < len(encoded); from += columns {
		if end := min(from+columns, len(encoded)); end-from >= minLine {
			all = append(all, pattern{encoded[from:end], func(s string) string { return encode(s)[from:end] }, true})
		}
	}
	return all
}

// urlStyles are the ways in which libraries escape text for URLs. safe contains the
// characters besides letters and digits that are not escaped. space is the encoding of a
// space.
var urlStyles = []struct{ safe, space string }{
	{"-_.~", "+"},                   // forms: Go, Python
	{"-_.*", "+"},                   // forms: browsers
	{"-_.~", "%20"},                 // curl
	{"-_.~/", "%20"},                // paths: Python
	{"-_.~$&+=:@", "%20"},           // path segments: Go
	{"-_.~$&+,/:;=@", "%20"},        // paths: Go
	{"-_.~$&+,/:;=@", "+"},          // paths: Go, with a space as in forms
	{"-_.~$&+,;=", "%20"},           // user and password: Go
	{"-_.!~*'()", "%20"},            // encodeURIComponent
	{"-_.!~*'()", "+"},              // encodeURIComponent, with a space as in forms
	{"-_.!~*'();/?:@&=+$,#", "%20"}, // encodeURI
}

func escapeURL(s, safe, space, digits string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(safe, c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteString(space)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
