package proxy

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ruleFraming is the rule of refused requests that are malformed or unsupported.
const ruleFraming = "http framing"

func badFraming(message string) *fault {
	return &fault{status: http.StatusBadRequest, rule: ruleFraming, message: message}
}

// framing describes the body of a request: its length in bytes, or the chunked transfer
// encoding.
type framing struct {
	length  int64
	chunked bool
}

// framingFields contains the number and the last value of the headers that determine the
// host and the body length of a request.
type framingFields struct {
	hosts, lengths, encodings int
	host, length, encoding    string
}

// checkHead checks a request's first line and headers, and returns the framing of its
// body. Each line of head must end with CR LF, and the last line must be empty.
func checkHead(head []byte) (framing, *fault) {
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	target, minor, f := checkRequestLine(line)
	if f != nil {
		return framing{}, f
	}
	var seen framingFields
	for {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if len(line) == 0 {
			break
		}
		name, value, f := checkField(line)
		if f != nil {
			return framing{}, f
		}
		seen.add(name, value)
	}
	if f := seen.checkHost(target, minor); f != nil {
		return framing{}, f
	}
	return seen.framing(minor)
}

func checkRequestLine(line []byte) (target string, minor byte, f *fault) {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	uri, version, ok := bytes.Cut(rest, []byte(" "))
	if !ok || !isToken(method) || !isTarget(string(uri)) {
		return "", 0, badFraming("The request's first line is malformed.")
	}
	if bytes.ContainsRune(uri, '%') && string(method) != http.MethodConnect {
		if _, err := url.ParseRequestURI(string(uri)); err != nil {
			return "", 0, badFraming("The request's URL is malformed.")
		}
	}
	switch string(version) {
	case "HTTP/1.1", "HTTP/1.0":
		return string(uri), version[len(version)-1], nil
	}
	if !bytes.HasPrefix(version, []byte("HTTP/")) || bytes.ContainsRune(version, ' ') {
		return "", 0, badFraming("The request's first line is malformed.")
	}
	return "", 0, &fault{status: http.StatusHTTPVersionNotSupported, rule: ruleFraming, message: "Only HTTP/1.0 and HTTP/1.1 are supported on this connection."}
}

// checkField checks a header line and splits it into name and value.
func checkField(line []byte) (name, value string, f *fault) {
	n, v, ok := bytes.Cut(line, []byte(":"))
	if !ok || !isToken(n) { // a folded line begins with white space, which is invalid in a name
		return "", "", badFraming("A header of the request is malformed.")
	}
	value = strings.Trim(string(v), " \t")
	if !httpguts.ValidHeaderFieldValue(value) {
		return "", "", badFraming("A header of the request contains invalid characters.")
	}
	return string(n), value, nil
}

func (s *framingFields) add(name, value string) {
	switch {
	case strings.EqualFold(name, "Host"):
		s.hosts++
		s.host = value
	case strings.EqualFold(name, "Content-Length"):
		s.lengths++
		s.length = value
	case strings.EqualFold(name, "Transfer-Encoding"):
		s.encodings++
		s.encoding = value
	}
}

// checkHost returns a fault if the request has several Host headers, or none in HTTP/1.1.
// If target is an absolute URL, the hosts of the URL and the header must be equal.
func (s *framingFields) checkHost(target string, minor byte) *fault {
	if s.hosts > 1 || s.hosts == 0 && minor == '1' {
		return badFraming("The request must have one Host header.")
	}
	_, rest, absolute := strings.Cut(target, "://")
	if !absolute || target[0] == '/' || s.hosts == 0 {
		return nil
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if !strings.EqualFold(strings.TrimSuffix(rest, ":80"), strings.TrimSuffix(s.host, ":80")) {
		return badFraming("The URL and the Host header of the request have different hosts.")
	}
	return nil
}

func (s *framingFields) framing(minor byte) (framing, *fault) {
	switch {
	case s.lengths > 1 || s.encodings > 1 || s.lengths+s.encodings > 1:
		return framing{}, badFraming("The request gives the length of its body more than once.")
	case s.encodings == 1 && (minor == '0' || !strings.EqualFold(s.encoding, "chunked")):
		return framing{}, badFraming("The only transfer encoding of requests is chunked, in HTTP/1.1.")
	case s.encodings == 1:
		return framing{chunked: true}, nil
	case s.lengths == 1:
		n, ok := decimal(s.length)
		if !ok {
			return framing{}, badFraming("The request's Content-Length is not a number.")
		}
		return framing{length: n}, nil
	}
	return framing{}, nil
}

// decimal parses a non-negative decimal number that consists only of digits.
func decimal(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63) // refuses signs and underscores
	return int64(n), err == nil
}

// chunkSize returns the size in the line before a chunk. The line contains hexadecimal
// digits and optional extensions. chunkSize returns false if the line is malformed.
func chunkSize(line []byte) (int64, bool) {
	digits, extensions, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	n, err := strconv.ParseUint(string(digits), 16, 63)
	return int64(n), err == nil && len(digits) <= 16 && httpguts.ValidHeaderFieldValue(string(extensions))
}

// methodOf returns the method at the beginning of a malformed request, or "" if there is
// none.
func methodOf(head []byte) string {
	method, _, ok := bytes.Cut(head[:min(len(head), 32)], []byte(" "))
	if !ok || !isToken(method) {
		return ""
	}
	return string(method)
}

func isToken(b []byte) bool {
	for _, c := range b {
		if !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return len(b) > 0
}

// isTarget reports whether s is valid as the target in a request's first line: it is not
// empty and contains neither spaces nor control characters.
func isTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}
