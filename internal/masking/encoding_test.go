package masking_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/masking"
)

// awkward is a secret that contains characters which each encoding must escape.
const awkward = "p@ss w/rd+\"<é😀>\\&'~=%"

func TestEncodings(t *testing.T) {
	t.Parallel()
	goJSON, err := json.Marshal(awkward)
	if err != nil {
		t.Fatal(err)
	}
	var plainJSON bytes.Buffer
	e := json.NewEncoder(&plainJSON)
	e.SetEscapeHTML(false)
	if err := e.Encode(awkward); err != nil {
		t.Fatal(err)
	}
	unquoted := strings.Trim(plainJSON.String(), "\"\n")
	twice, err := json.Marshal(plainJSON.String())
	if err != nil {
		t.Fatal(err)
	}
	user := url.UserPassword("", awkward).String()[1:]
	path := (&url.URL{Path: "/" + awkward}).EscapedPath()[1:]
	for name, text := range map[string]string{
		"plain":                awkward,
		"hex":                  hex.EncodeToString([]byte(awkward)),
		"HEX":                  strings.ToUpper(hex.EncodeToString([]byte(awkward))),
		"query":                url.QueryEscape(awkward),
		"query, %20":           strings.ReplaceAll(url.QueryEscape(awkward), "+", "%20"),
		"query, lower case":    lowerPercents(url.QueryEscape(awkward)),
		"path segment":         url.PathEscape(awkward),
		"path segment, lower":  lowerPercents(url.PathEscape(awkward)),
		"path":                 path,
		"password in a URL":    user,
		"encodeURIComponent":   "p%40ss%20w%2Frd%2B%22%3C%C3%A9%F0%9F%98%80%3E%5C%26'~%3D%25",
		"encodeURI":            "p@ss%20w/rd+%22%3C%C3%A9%F0%9F%98%80%3E%5C&'~=%25",
		"form of a browser":    "p%40ss+w%2Frd%2B%22%3C%C3%A9%F0%9F%98%80%3E%5C%26%27%7E%3D%25",
		"JSON, Go":             strings.Trim(string(goJSON), `"`),
		"JSON, Go, no HTML":    unquoted,
		"JSON, twice":          strings.TrimSuffix(strings.Trim(string(twice), `"`), `\n`)[2 : len(strings.TrimSuffix(strings.Trim(string(twice), `"`), `\n`))-2],
		"JSON, Python":         `p@ss w/rd+\"<\u00e9\ud83d\ude00>\\&'~=%`,
		"JSON, Java":           `p@ss w/rd+\"<\u00E9\uD83D\uDE00>\\&'~=%`,
		"JSON, PHP":            `p@ss w\/rd+\"<\u00e9\ud83d\ude00>\\&'~=%`,
		"JSON, slashes":        `p@ss w\/rd+\"<é😀>\\&'~=%`,
		"JSON, .NET":           `p@ss w/rd\u002B\u0022\u003C\u00E9\uD83D\uDE00\u003E\\\u0026\u0027~=%`,
		"JSON, \\u00 only":     `p@ss w/rd+\u0022<é😀>\u005c&'~=%`,
		"JSON, \\u00 in upper": `p@ss w/rd+\u0022<é😀>\u005C&'~=%`,
	} {
		if name == "JSON, twice" { // json.Marshal escapes HTML characters, and most other encoders do not
			text = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
		}
		if diff := cmp.Diff("before *** after", masking.NewMasker([]string{awkward}).Mask("before "+text+" after")); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, text, diff)
		}
	}
}

func lowerPercents(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:i+3]))
		}
	}
	return string(b)
}

// TestBase64 encodes secrets of various lengths with various numbers of bytes before
// and after the secret. Each character that encodes only bits of the secret must be
// masked.
func TestBase64(t *testing.T) {
	t.Parallel()
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for length := 4; length < 12; length++ {
			value := "k?>~z~>?koÿ"[:length]
			m := masking.NewMasker([]string{value})
			for before := range 7 {
				for after := range 7 {
					encoded := encoding.EncodeToString([]byte(strings.Repeat("\xff", before) + value + strings.Repeat("\xff", after)))
					firstBit, lastBit := 8*before, 8*(before+length)
					want := encoded[:(firstBit+5)/6] + masking.Mask + encoded[lastBit/6:]
					if after == 0 { // the last character and the padding encode only bits of the secret
						want = encoded[:(firstBit+5)/6] + masking.Mask
					}
					if diff := cmp.Diff(want, m.Mask(encoded)); diff != "" {
						t.Errorf("%q with %d before and %d after: %s (-want +got):\n%s", value, before, after, encoded, diff)
					}
				}
			}
		}
	}
}

func TestMultiLineSecrets(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n7bit\n-----END KEY-----\n"
	crlf := strings.ReplaceAll(key, "\n", "\r\n")
	asJSON, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{key, crlf} {
		m := masking.NewMasker([]string{value})
		for _, c := range []struct{ name, text, want string }{
			{"as it is", key, "***"},
			{"other line ends", crlf, "***"},
			{"without the last line end", strings.TrimSpace(key) + ";", "***;"},
			{"indented", "  " + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n  "), "  ***\n  ***\n  ***\n  7bit\n  ***"},
			{"one line", "> hkiG9w0BAQEFAASC <", "> *** <"},
			{"JSON", string(asJSON), `"***"`},
			{"JSON, indented", `"\n  MIIEvQIBADANBgkq\n  hkiG9w0BAQEFAASC"`, `"\n  ***\n  ***"`},
		} {
			if diff := cmp.Diff(c.want, m.Mask(c.text)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	}
}

func TestWrappedEncodings(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 5)
	for columns, encoded := range map[int]string{
		76: base64.StdEncoding.EncodeToString([]byte(value)),
		64: base64.StdEncoding.EncodeToString([]byte(value)),
		60: hex.EncodeToString([]byte(value)),
	} {
		for at := columns; at < len(encoded); at += columns + 3 {
			encoded = encoded[:at] + "\r\n\t" + encoded[at:]
		}
		got := masking.NewMasker([]string{value}).Mask(encoded)
		if left := strings.NewReplacer(masking.Mask, "", "\r\n\t", "").Replace(got); left != "" {
			t.Errorf("of lines of %d columns %q is left", columns, left)
		}
	}
}

func TestMaskJSON(t *testing.T) {
	t.Parallel()
	m := masking.NewMasker([]string{"hunter2!", "12345678"})
	type header struct {
		Name  string `json:"name"`
		Value string `json:"value,omitempty"`
	}
	in := map[string]any{
		"hunter2!": "x", "a hunter2!": nil, "***": 1,
		"list":   []any{"hunter2!", true, 12345678, 1.5, json.Number("12345678"), json.Number("7")},
		"header": header{Name: "Authorization", Value: "Bearer hunter2!"},
		"map":    map[string][]string{"hunter2!": {"<hunter2!>"}},
		"none":   func() {},
	}
	want := map[string]any{
		"***": json.Number("1"), "*** 2": "x", "a ***": nil,
		"list":   []any{"***", true, "***", json.Number("1.5"), "***", json.Number("7")},
		"header": map[string]any{"name": "Authorization", "value": "Bearer ***"},
		"map":    map[string]any{"***": []any{"<***>"}},
		"none":   "***",
	}
	if diff := cmp.Diff(any(want), m.MaskJSON(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if in["hunter2!"] != "x" {
		t.Error("the argument was changed")
	}
}
