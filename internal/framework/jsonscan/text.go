package jsonscan

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text decodes a string; empty where raw is none. Bytes that are no UTF-8 stay
// as they are.
func Text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	at := bytes.IndexByte(inner, '\\')
	if at < 0 {
		return string(inner)
	}
	out := make([]byte, 0, len(inner))
	for at >= 0 {
		out = append(out, inner[:at]...)
		inner = inner[at:]
		c, n := escape(inner)
		if n == 0 {
			return "" // no JSON
		}
		out, inner = utf8.AppendRune(out, c), inner[n:]
		at = bytes.IndexByte(inner, '\\')
	}
	return string(append(out, inner...))
}

// Elements calls visit for each element of an array, until the first that is
// none.
func Elements(raw []byte, visit func(element []byte)) {
	if len(raw) == 0 || raw[0] != '[' {
		return
	}
	for p := space(raw[1:]); ; {
		element, rest, ok := value(p)
		if !ok {
			return
		}
		visit(element)
		rest = space(rest)
		if len(rest) == 0 || rest[0] != ',' {
			return
		}
		p = space(rest[1:])
	}
}

var escapes = [256]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape decodes the escape sequence that p begins with and counts its bytes; 0
// says that it is none.
func escape(p []byte) (c rune, n int) {
	if len(p) < 2 {
		return 0, 0
	}
	if p[1] != 'u' {
		if c = escapes[p[1]]; c == 0 {
			return 0, 0
		}
		return c, 2
	}
	if c = hex4(p); c < 0 {
		return 0, 0
	}
	if utf16.IsSurrogate(c) {
		if pair := utf16.DecodeRune(c, hex4(p[6:])); pair != utf8.RuneError {
			return pair, 12
		}
		c = utf8.RuneError
	}
	return c, 6
}

// hex4 is the number in a \u sequence, or -1.
func hex4(p []byte) rune {
	if len(p) < 6 || p[0] != '\\' || p[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(p[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
