package frameworktest

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/framework"
)

// CheckDecode decodes output that no recording has, and holds the transcript to how it
// begins (empty: there is none) and the native lines to their types, one behind
// the other. It gives the decoder and all that came of it.
func CheckDecode(t *testing.T, f framework.Framework, in framework.Input, output, content, native string) (framework.Decoder, framework.Step) {
	t.Helper()
	d := f.NewDecoder(in)
	s := d.Write(framework.Stdout, []byte(output))
	s.Join(d.Flush(framework.Stdout))
	got := Content(s.Events)
	if !strings.HasPrefix(got, content) || content == "" && got != "" {
		t.Errorf("content %.80q, want %q", got, content)
	}
	var types strings.Builder
	for _, n := range s.Native {
		types.WriteString(n.Type)
	}
	if types.String() != native {
		t.Errorf("native %q, want %q", types.String(), native)
	}
	return d, s
}

// CheckStderr holds a framework to judging what ended without a word on standard
// output: by what stands on standard error the message has to have a word of.
func CheckStderr(t *testing.T, f framework.Framework, in framework.Input, words map[string]string) {
	t.Helper()
	for stderr, want := range words {
		d := f.NewDecoder(in)
		d.Write(framework.Stderr, []byte(stderr))
		if v := d.Verdict(0); v.Completed || !strings.Contains(v.Message, want) {
			t.Errorf("stderr %q: %q", stderr, v.Message)
		}
	}
}

// Fuzz holds a decoder to what CheckChunks does, for any output.
func Fuzz(f *testing.F, of framework.Framework, in framework.Input) {
	f.Helper()
	seed(f)
	f.Fuzz(func(t *testing.T, output []byte, n uint16) { CheckChunks(t, of, in, output, int(n)+1) })
}

// Bench decodes a stream in the pieces in which the engine reads it.
func Bench(b *testing.B, f framework.Framework, in framework.Input, stream string) {
	b.Helper()
	p := []byte(stream)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		d := f.NewDecoder(in)
		for rest := p; len(rest) > 0; rest = rest[min(32<<10, len(rest)):] {
			d.Write(framework.Stdout, rest[:min(32<<10, len(rest))])
		}
	}
}
