package masking_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/masking"
)

const (
	token       = "sk-martinI-0123456789abcdefghijkl"
	placeholder = "stint-secret-token"
)

// naiveRedact is a simple implementation of Redactor.Mask: each range of overlapping
// occurrences becomes the replacement of the longest occurrence at the start of the
// range.
func naiveRedact(secrets []masking.Secret, text string) string {
	patterns, replacements := masking.RedactPatterns(secrets)
	longest := func(at int) int {
		found := -1
		for i, p := range patterns {
			if strings.HasPrefix(text[at:], p) && (found < 0 || len(p) > len(patterns[found])) {
				found = i
			}
		}
		return found
	}
	var out strings.Builder
	for at := 0; at < len(text); {
		found := longest(at)
		if found < 0 {
			out.WriteByte(text[at])
			at++
			continue
		}
		out.WriteString(replacements[found])
		for end := at + len(patterns[found]); at < end; at++ {
			if next := longest(at); next >= 0 {
				end = max(end, at+len(patterns[next]))
			}
		}
	}
	return out.String()
}

// redact writes text to a redactor's writer, in pieces of the lengths that cut returns,
// and returns the output.
func redact(t testing.TB, secrets []masking.Secret, text string, cut func() int) string {
	t.Helper()
	var b strings.Builder
	w := masking.NewRedactor(secrets).Writer(&b)
	for len(text) > 0 {
		n := min(len(text), max(1, cut()))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func FuzzRedactor(f *testing.F) {
	f.Add("abcd", "abca", "xxabcabcdabcaabc", uint64(1))
	f.Add("aaaa", "aaaaa", "aaaaaaaaaaaaaaaa", uint64(2))
	f.Add(token, "p@ss w/rd+\"x", "x"+token+"p@ss w/rd+\"x"+token[:9], uint64(3))
	f.Add("ab/cd ef\"gh", "%41%42", "ab%2Fcd+ef%22gh ab\\/cd ef\\\"gh", uint64(4))
	f.Fuzz(func(t *testing.T, a, b, text string, seed uint64) {
		if len(a)+len(b) > 100 || len(text) > 1000 {
			return // the simple implementation is slow
		}
		secrets := []masking.Secret{{Replacement: "PLACE-A", Value: a}, {Replacement: "PLACE-B", Value: b}}
		r := rand.New(rand.NewPCG(seed, 0))
		want := naiveRedact(secrets, text)
		if diff := cmp.Diff(want, masking.NewRedactor(secrets).Mask(text)); diff != "" {
			t.Errorf("Mask (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, redact(t, secrets, text, func() int { return r.IntN(6) })); diff != "" {
			t.Errorf("Writer (-want +got):\n%s", diff)
		}
	})
}

func TestRedactorAgreesWithSimpleImplementation(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[r.IntN(2)]
		}
		return string(b)
	}
	for range 3000 {
		secrets := []masking.Secret{{Replacement: "1", Value: word(4 + r.IntN(4))}, {Replacement: "22222222222", Value: word(4 + r.IntN(9))}}
		text := word(r.IntN(60))
		got := redact(t, secrets, text, func() int { return r.IntN(9) })
		if want := naiveRedact(secrets, text); got != want {
			t.Fatalf("%v in %s: got %s, want %s", secrets, text, got, want)
		}
	}
}

// TestLongSecretsInMuchText checks secrets that are so long that the search can skip
// parts of the text. The texts contain whole encodings and parts of encodings.
func TestLongSecretsInMuchText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var secrets []masking.Secret
		for i, value := range tokens(r, 1+r.IntN(4), 5+r.IntN(40)) {
			secrets = append(secrets, masking.Secret{Replacement: strings.Repeat("P", i+1), Value: value})
		}
		patterns, _ := masking.RedactPatterns(secrets)
		var text strings.Builder
		for range 40 {
			p := patterns[r.IntN(len(patterns))]
			from := r.IntN(2) * r.IntN(len(p))
			text.WriteString(p[from : from+1+r.IntN(len(p)-from)])
			text.WriteString(patterns[r.IntN(len(patterns))][:r.IntN(5)])
			text.WriteString(tokens(r, 1, r.IntN(60))[0])
		}
		want := naiveRedact(secrets, text.String())
		if got := masking.NewRedactor(secrets).Mask(text.String()); got != want {
			t.Fatalf("%v in %s: got %s, want %s", secrets, &text, got, want)
		}
		if got := redact(t, secrets, text.String(), func() int { return r.IntN(100) }); got != want {
			t.Fatalf("%v in pieces of %s: got %s, want %s", secrets, &text, got, want)
		}
	}
}

// TestRedactorEncodings checks the encodings that a response is likely to
// contain, with their replacements.
func TestRedactorEncodings(t *testing.T) {
	t.Parallel()
	secrets := []masking.Secret{{Value: "ab/cd ef\"gh<é>", Replacement: "PLACE HOLDER/1"}}
	for in, want := range map[string]string{
		"ab/cd ef\"gh<é>":                  "PLACE HOLDER/1",
		"ab%2Fcd+ef%22gh%3C%C3%A9%3E":      "PLACE+HOLDER%2F1",
		"ab%2Fcd%20ef%22gh%3C%C3%A9%3E":    "PLACE%20HOLDER%2F1",
		"ab%2fcd%20ef%22gh%3c%c3%a9%3e":    "PLACE%20HOLDER%2f1",
		"ab/cd%20ef%22gh%3C%C3%A9%3E":      "PLACE%20HOLDER/1",
		`ab/cd ef\"gh<é>`:                  "PLACE HOLDER/1",
		`ab\/cd ef\"gh<é>`:                 `PLACE HOLDER\/1`,
		`ab/cd ef\"gh\u003cé\u003e`:        "PLACE HOLDER/1",
		`ab\/cd ef\"gh\u003cé\u003e`:       `PLACE HOLDER\/1`,
		"61622f63642065662267683cc3a93e":   "504c41434520484f4c4445522f3150",
		"YWIvY2QgZWYiZ2g8w6k+":             "UExBQ0UgSE9MREVSLzFQ",
		"xFiL2NkIGVmImdoPMOpPg==":          "xBMQUNFIEhPTERFUi8xUA==",
		"xhYi9jZCBlZiJnaDzDqT4=":           "xQTEFDRSBIT0xERVIvMVA=",
		"XWFiL2NkIGVmImdoPMOpPl0=":         "XWBMQUNFIEhPTERFUi8xUl0=",
		"(ab/cd ef\"gh<é>ab/cd ef\"gh<é>)": "(PLACE HOLDER/1PLACE HOLDER/1)",
		"ab/cd ef\"gh<é":                   "ab/cd ef\"gh<é",
	} {
		if got := masking.NewRedactor(secrets).Mask(in); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

func TestRedactorHoldsBackOnlyBeginnings(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := masking.NewRedactor([]masking.Secret{{Value: token, Replacement: placeholder}}).Writer(&b)
	for _, c := range []struct{ write, want string }{
		{"data: 1\n\n", "data: 1\n\n"}, {"xsk-", "x"}, {"mart", ""}, {"!", "sk-mart!"}, {token, placeholder}, {token[:20], ""}, {"\n", token[:20] + "\n"},
	} {
		b.Reset()
		_, _ = io.WriteString(w, c.write)
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", c.write, diff)
		}
	}
}

func TestRedactorReturnsErrorsOfItsWriter(t *testing.T) {
	t.Parallel()
	w := masking.NewRedactor([]masking.Secret{{Value: token, Replacement: placeholder}}).Writer(failing{})
	if _, err := io.WriteString(w, "text "+token); err == nil {
		t.Error("the error was not returned")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestRedactorIgnoresShortValues(t *testing.T) {
	t.Parallel()
	secrets := []masking.Secret{{Replacement: placeholder, Value: "abc"}}
	if got := redact(t, secrets, "abcabc", func() int { return 2 }); got != "abcabc" {
		t.Errorf("got %q", got)
	}
	secrets[0].Value = "äö" // four bytes
	if got := redact(t, secrets, "xäöx", func() int { return 1 }); got != "x"+placeholder+"x" {
		t.Errorf("got %q", got)
	}
}

// benchSecrets are typical secrets of the requests to one host.
var benchSecrets = []masking.Secret{
	{Value: token, Replacement: placeholder},
	{Value: "p@ss w/rd+\"x", Replacement: placeholder},
	{Value: "ghp_abcdefghijklmnopqrstuvwxyz0123456789", Replacement: placeholder},
}

func BenchmarkRedactor(b *testing.B) {
	binary := make([]byte, 32<<10)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(binary) // returns no error
	for _, c := range []struct {
		name string
		text []byte
	}{
		{"text", bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog. sk-"), 700)[:32<<10]},
		{"binary", binary},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			w := masking.NewRedactor(benchSecrets).Writer(io.Discard)
			for b.Loop() {
				_, _ = w.Write(c.text)
			}
		})
	}
}

func BenchmarkNewRedactor(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		masking.NewRedactor(benchSecrets)
	}
}
