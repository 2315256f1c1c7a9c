package masking_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/masking"
)

// naive is a simple implementation of Masker.Mask: each byte of an occurrence of a
// pattern is covered, and each run of covered bytes becomes one mask.
func naive(values []string, text string) string {
	covered := make([]bool, len(text)+1)
	for _, p := range masking.Patterns(values) {
		for at := 0; at+len(p) <= len(text); at++ {
			if text[at:at+len(p)] == p {
				for i := range len(p) {
					covered[at+i] = true
				}
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			b.WriteByte(text[i])
		case !covered[i+1]:
			b.WriteString(masking.Mask)
		}
	}
	return b.String()
}

// longestBeginning returns the length in bytes of the longest suffix of text that is
// the beginning of a pattern, but not a whole pattern.
func longestBeginning(values []string, text string) int {
	longest := 0
	for _, p := range masking.Patterns(values) {
		for n := min(len(p)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, p[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// stream masks text with a Stream and returns the result. It writes pieces of the sizes
// that cut returns for the number of bytes that are left, and checks that the stream
// holds back only the beginning of a pattern.
func stream(t testing.TB, values []string, text string, cut func(left int) int) string {
	s := masking.NewMasker(values).Stream()
	var b strings.Builder
	for at := 0; at < len(text); {
		n := cut(len(text) - at)
		piece := []byte(text[at : at+n])
		b.Write(s.Write(piece))
		clear(piece) // the stream must not keep the caller's buffer
		at += n
		if limit := longestBeginning(values, text[:at]); s.Pending() > limit {
			t.Fatalf("after %q: %d bytes are held back where only %d may begin a secret", text[:at], s.Pending(), limit)
		}
	}
	b.Write(s.Flush())
	if s.Pending() != 0 || len(s.Flush()) != 0 {
		t.Fatal("bytes are left after Flush")
	}
	return b.String()
}

func TestRandomMaskerAgreesWithSimpleImplementation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]string{"ab", "ab\n", "a/+ ", "aé\"\n\r ", "\x00\xffaY"}).Draw(t, "letters")
		word := rapid.StringOfN(rapid.RuneFrom([]rune(letters)), 0, 24, -1)
		values := rapid.SliceOfN(word, 0, 4).Draw(t, "values")
		pieces := []*rapid.Generator[string]{word}
		if known := masking.Patterns(values); len(known) > 0 {
			pieces = append(pieces, rapid.SampledFrom(known), rapid.Map(rapid.SampledFrom(known), func(s string) string { return s[:len(s)/2+1] }))
		}
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(pieces...), 0, 12).Draw(t, "text"), "")
		want := naive(values, text)
		m := masking.NewMasker(values)
		if diff := cmp.Diff(want, m.Mask(text)); diff != "" {
			t.Errorf("Mask (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, string(m.MaskBytes([]byte(text)))); diff != "" {
			t.Errorf("MaskBytes (-want +got):\n%s", diff)
		}
		largest := rapid.IntRange(1, 40).Draw(t, "largest piece")
		s := m.Stream()
		var got strings.Builder
		for at := 0; at < len(text); {
			n := rapid.IntRange(1, min(largest, len(text)-at)).Draw(t, "piece")
			got.Write(s.Write([]byte(text[at : at+n])))
			at += n
			if limit := longestBeginning(values, text[:at]); s.Pending() > limit {
				t.Errorf("after %q: %d bytes are held back, %d may", text[:at], s.Pending(), limit)
			}
		}
		got.Write(s.Flush())
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("Stream (-want +got):\n%s", diff)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add("hunter2!", "aaaa", "hunter2!aaaaahunter", uint64(1))
	f.Add("ab ab ab", "b ab b", "ab+ab+ab%20ab", uint64(2))
	f.Add("line one 123\r\nline two 123\n", "\xff\xfe\xfd\xfc", "line one 123\n  line two 123", uint64(3))
	f.Fuzz(func(t *testing.T, one, two, text string, seed uint64) {
		if len(one)+len(two) > 100 || len(text) > 1000 {
			return // the simple implementation is slow
		}
		values := []string{one, two}
		random := rand.New(rand.NewPCG(seed, 0))
		known := append(masking.Patterns(values), "")
		text += known[random.IntN(len(known))] + known[random.IntN(len(known))] + text
		want := naive(values, text)
		got := stream(t, values, text, func(left int) int { return 1 + random.IntN(min(left, 20)) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestManyLongSecrets(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	values := append(tokens(random, 20, 40), pem(random, 24))
	known := masking.Patterns(values)
	var text strings.Builder
	for range 100 {
		p := known[random.IntN(len(known))]
		from := random.IntN(2) * random.IntN(len(p))
		text.WriteString(p[from:])
		text.WriteString(tokens(random, 1, random.IntN(10))[0])
	}
	want := naive(values, text.String())
	if diff := cmp.Diff(want, masking.NewMasker(values).Mask(text.String())); diff != "" {
		t.Errorf("Mask (-want +got):\n%s", diff)
	}
	s := masking.NewMasker(values).Stream()
	var got strings.Builder
	for b := range len(text.String()) {
		got.Write(s.Write([]byte{text.String()[b]}))
	}
	got.Write(s.Flush())
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("Stream by bytes (-want +got):\n%s", diff)
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, values, text, want string }{
		{"nothing to mask", "", "some text", "some text"},
		{"too short", "abc", "abcabc", "abcabc"},
		{"characters, not bytes", "äöü", "äöü", "äöü"},
		{"four characters", "abcd", "xabcdx", "x***x"},
		{"one begins another", "abcd abcdefgh", "abcdefgh abcdefg", "*** ***efg"},
		{"one within another", "cdef abcdefgh", "abcdefgh abcdef", "*** ab***"},
		{"overlapping", "abcdef defghi", "abcdefghi", "***"},
		{"touching", "abcd", "abcdabcd abcd", "*** ***"},
		{"with itself", "aaaa", "aaaaaaaaaa b aaa", "*** b aaa"},
		{"begins again at once", "abac", "ababac ababa", "ab*** ababa"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			values := strings.Fields(c.values)
			if diff := cmp.Diff(c.want, masking.NewMasker(values).Mask(c.text)); diff != "" {
				t.Errorf("Mask (-want +got):\n%s", diff)
			}
			for size := 1; size <= len(c.text); size++ {
				got := stream(t, values, c.text, func(left int) int { return min(left, size) })
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("in pieces of %d (-want +got):\n%s", size, diff)
				}
			}
		})
	}
}

func TestStreamHoldsBackOnlyBeginnings(t *testing.T) {
	t.Parallel()
	s := masking.NewMasker([]string{"password1", "token-xyz", "user", "username"}).Stream()
	for _, step := range []struct{ in, out string }{
		{"Your name? ", "Your name? "},
		{"Your pass", "Your "},
		{"port? ", "passport? "},
		{"the tok", "the "},
		{"en-xyz!", "***!"},
		{"my user", "my ***"}, // masked at once, because "user" is a secret itself
		{"name.", "."},
		{"token-xyz", "***"},
		{"token-xyz", ""}, // adjacent secrets have one mask
		{"token-x", ""},
	} {
		if diff := cmp.Diff(step.out, string(s.Write([]byte(step.in)))); diff != "" {
			t.Errorf("Write(%q) (-want +got):\n%s", step.in, diff)
		}
	}
	if got := s.Pending(); got != len("token-x") {
		t.Errorf("%d bytes are pending", got)
	}
	if diff := cmp.Diff("token-x", string(s.Flush())); diff != "" {
		t.Errorf("Flush (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("***", string(s.Write([]byte("token-xyz")))); diff != "" {
		t.Errorf("a new text (-want +got):\n%s", diff)
	}
}

func TestMaskerDoesNotPrintSecrets(t *testing.T) {
	t.Parallel()
	m := masking.NewMasker([]string{"hunter2hunter2"})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if diff := cmp.Diff("masking.Masker", fmt.Sprintf(verb, m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", verb, diff)
		}
	}
}

func TestCheckLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values []string
		ok     bool
	}{
		"none":      {nil, true},
		"many":      {make([]string, masking.MaxValues), true},
		"too many":  {make([]string, masking.MaxValues+1), false},
		"large":     {[]string{strings.Repeat("a", masking.MaxTotalSize)}, true},
		"too large": {[]string{strings.Repeat("a", masking.MaxTotalSize), "b"}, false},
	} {
		err := masking.CheckLimits("secrets", c.values)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && stint.KindOf(err) != stint.KindInvalid {
			t.Errorf("%s: kind %v", name, stint.KindOf(err))
		}
	}
}

func tokens(random *rand.Rand, n, length int) []string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
	all := make([]string, n)
	for i := range all {
		b := make([]byte, length)
		for j := range b {
			b[j] = letters[random.IntN(len(letters))]
		}
		all[i] = string(b)
	}
	return all
}

func pem(random *rand.Rand, lines int) string {
	return "-----BEGIN PRIVATE KEY-----\n" + strings.Join(tokens(random, lines, 64), "\n") + "\n-----END PRIVATE KEY-----\n"
}

func BenchmarkStream(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	twenty := tokens(random, 20, 40)
	plain := logText(random, nil)
	for _, c := range []struct {
		name   string
		values []string
		text   []byte
	}{
		{"no secrets", nil, plain},
		{"20 secrets", twenty, plain},
		{"20 secrets and a key", append([]string{pem(random, 26)}, twenty...), plain},
		{"20 secrets in the text", twenty, logText(random, twenty)},
		{"beginnings only", []string{strings.Repeat("a", 40) + "b"}, []byte(strings.Repeat("a", 1<<20))},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := masking.NewMasker(c.values)
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				s := m.Stream()
				for at := 0; at < len(c.text); at += 4096 {
					s.Write(c.text[at:min(at+4096, len(c.text))])
				}
				s.Flush()
			}
		})
	}
}

func BenchmarkNewMasker(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	values := append(tokens(random, 20, 40), pem(random, 26))
	b.ReportAllocs()
	for b.Loop() {
		masking.NewMasker(values)
	}
}

// logText returns 1 MiB of log lines. If secrets is not empty, one line in ten contains
// a secret.
func logText(random *rand.Rand, secrets []string) []byte {
	var b strings.Builder
	for n := 0; b.Len() < 1<<20; n++ {
		fmt.Fprintf(&b, "2026-11-21T10:36:%02d.123Z INFO  request served path=/v1/runs/%d status=200 took=%dms", n%60, n, random.IntN(100))
		if n%10 == 0 && len(secrets) > 0 {
			b.WriteString(" authorization=Bearer " + secrets[random.IntN(len(secrets))])
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
