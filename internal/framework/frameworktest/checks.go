package frameworktest

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/framework"
)

// CheckDecode decodes output and checks that the transcript starts with content,
// and that the concatenated types of the native lines are native. If content is
// empty, the transcript must be empty. CheckDecode returns the decoder and the
// combined step.
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

// CheckStderr checks the messages of runs that write only to standard error and do
// not complete. Each key of words is the text on standard error, and its value is a
// phrase that the message must contain.
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

// Fuzz is a fuzz test that calls CheckChunks. The recordings in testdata are its
// seeds.
func Fuzz(f *testing.F, of framework.Framework, in framework.Input) {
	f.Helper()
	seed(f)
	f.Fuzz(func(t *testing.T, output []byte, n uint16) { CheckChunks(t, of, in, output, int(n)+1) })
}

// Bench measures the decoding of stream in pieces of 32 KiB, the size that the worker
// reads.
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
