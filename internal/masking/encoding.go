package masking

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// pattern is a text to find. encode is the encoding of it, which is applied to the
// replacement as well.
type pattern struct {
	text   string
	encode func(string) string
	// keepLength is set for encodings in which a replacement must have the same
	// length, so that the text around it still decodes.
	keepLength bool
}

// maskPatterns returns the sorted encodings of values.
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

// redactPatterns returns the sorted encodings of secrets and their replacements.
// Of equal encodings of two secrets, that of the first secret is used.
func redactPatterns(secrets []Secret) (patterns, replacements []string) {
	type pair struct {
		encode      func(string) string
		replacement string // of the form that is encoded
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

// forms returns the value as it may be printed without an encoding: with other
// line ends, without white space around it, and line by line.
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

// encodings returns the encodings of s, beginning with s itself.
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

// isUnreserved reports whether no style of URL encoding escapes r.
func isUnreserved(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.'
}

// appendBase64 appends the base64 of s at its three alignments. Characters that
// also depend on the bytes before s are omitted. Characters that depend on the
// bytes after s are omitted or, for an s at the end of a text, included.
func appendBase64(all []pattern, s string) []pattern {
	for before := range 3 {
		from := (before*4 + 2) / 3         // the first character that depends on s only
		upTo := (before + len(s)) * 4 / 3  // after the last one
		raw := ((before+len(s))*4 + 2) / 3 // after the last one without padding
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

// appendLines appends the lines of an encoding that is wrapped at a number of
// columns.
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

// urlStyles are the ways in which libraries escape for URLs: the characters that
// are not escaped besides letters and digits, and the encoding of a space.
var urlStyles = []struct{ safe, space string }{
	{"-_.~", "+"},                   // forms: Go, Python
	{"-_.*", "+"},                   // forms: browsers
	{"-_.~", "%20"},                 // curl
	{"-_.~/", "%20"},                // paths: Python
	{"-_.~$&+=:@", "%20"},           // path segments: Go
	{"-_.~$&+,/:;=@", "%20"},        // paths: Go
	{"-_.~$&+,/:;=@", "+"},          // the same with form spaces
	{"-_.~$&+,;=", "%20"},           // user and password: Go
	{"-_.!~*'()", "%20"},            // encodeURIComponent
	{"-_.!~*'()", "+"},              // the same with form spaces
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
