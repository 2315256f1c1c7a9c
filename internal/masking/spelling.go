package masking

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// spellings gives all ways of writing values that a masker looks for, sorted.
func spellings(values []string) []string {
	var all []string
	for _, v := range values {
		if !longEnough(v, minLength) {
			continue
		}
		for _, form := range forms(v) {
			all = append(all, form)
			all = appendBase64(all, form)
			all = appendHex(all, form)
			all = appendURL(all, form)
			all = appendJSON(all, form)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// forms gives the value as it may be printed without any encoding: with other
// line ends, without white space around it, and line by line.
func forms(value string) []string {
	unix := strings.ReplaceAll(value, "\r\n", "\n")
	all := []string{value, unix, strings.ReplaceAll(unix, "\n", "\r\n")}
	for _, form := range slices.Clone(all) {
		if core := strings.TrimSpace(form); longEnough(core, minLength) {
			all = append(all, core)
		}
	}
	for line := range strings.SplitSeq(unix, "\n") {
		if line = strings.TrimSpace(line); longEnough(line, minLine) {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// appendBase64 adds the base64 of s at its three places within groups of
// three bytes. Characters that also depend on what stands before or after s
// are left out at the front; at the end they are left out and, for an s that
// is the end of the text, put in.
func appendBase64(all []string, s string) []string {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			padded := encoding.EncodeToString(append(make([]byte, before), s...))
			from := (before*4 + 2) / 3         // the first character that is of s alone
			upTo := (before + len(s)) * 4 / 3  // after the last one
			raw := ((before+len(s))*4 + 2) / 3 // after the last one that is no padding
			if upTo-from < minLength {
				continue
			}
			all = append(all, padded[from:upTo], padded[from:raw], padded[from:])
			if before == 0 {
				all = appendLines(all, padded[:upTo], 76)
				all = appendLines(all, padded[:upTo], 64)
			}
		}
	}
	return all
}

// appendHex adds the hexadecimal digits of s.
func appendHex(all []string, s string) []string {
	digits := hex.EncodeToString([]byte(s))
	for _, d := range []string{digits, strings.ToUpper(digits)} {
		all = appendLines(append(all, d), d, 60)
	}
	return all
}

// appendLines adds the lines that encoded is wrapped to at so many columns.
func appendLines(all []string, encoded string, columns int) []string {
	if len(encoded) <= columns {
		return all
	}
	for line := range slices.Chunk([]byte(encoded), columns) {
		if len(line) >= minLine {
			all = append(all, string(line))
		}
	}
	return all
}

// urlStyles are the ways in which libraries escape for URLs: which characters
// besides letters and digits they leave alone, and what they make of a space.
var urlStyles = []struct{ safe, space string }{
	{"-_.~", "+"},                   // forms: Go, Python
	{"-_.*", "+"},                   // forms: browsers
	{"-_.~", "%20"},                 // curl
	{"-_.~/", "%20"},                // paths: Python
	{"-_.~$&+=:@", "%20"},           // parts of paths: Go
	{"-_.~$&+,/:;=@", "%20"},        // paths: Go
	{"-_.~$&+,;=", "%20"},           // user and password: Go
	{"-_.!~*'()", "%20"},            // encodeURIComponent
	{"-_.!~*'();/?:@&=+$,#", "%20"}, // encodeURI
}

func appendURL(all []string, s string) []string {
	for _, style := range urlStyles {
		for _, digits := range []string{"0123456789ABCDEF", "0123456789abcdef"} {
			all = append(all, escapeURL(s, style.safe, style.space, digits))
		}
	}
	return all
}

func escapeURL(s, safe, space, digits string) string {
	var b strings.Builder
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
