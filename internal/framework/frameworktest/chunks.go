package frameworktest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stint-dev/stint/internal/framework"
)

// CheckChunks checks that decoding output in pieces of n bytes gives the same result as
// decoding it in one piece.
func CheckChunks(t *testing.T, f framework.Framework, in framework.Input, output []byte, n int) {
	t.Helper()
	read := func(size int) (s framework.Step, v framework.Verdict) {
		d := f.NewDecoder(in)
		for rest := output; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			s.Join(d.Write(framework.Stdout, rest[:min(size, len(rest))]))
		}
		s.Join(d.Flush(framework.Stdout))
		s.Join(d.Flush(framework.Stderr))
		d.Conversation()
		return s, d.Verdict(0)
	}
	whole, judged := read(max(1, len(output)))
	parts, again := read(max(1, n))
	if diff := cmp.Diff(whole, parts); diff != "" {
		t.Errorf("in pieces of %d bytes (-whole +pieces):\n%s", n, diff)
	}
	if diff := cmp.Diff(judged, again); diff != "" {
		t.Errorf("verdict in pieces of %d bytes (-whole +pieces):\n%s", n, diff)
	}
}

// maxSeed is the maximum length of a seed in bytes. Long seeds are slow to mutate.
const maxSeed = 2 << 10

// seed adds the standard output of each recording, without its long lines, as a
// seed of the fuzz test.
func seed(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range txtar.Parse(raw).Files {
			if p.Name == "stdout" {
				f.Add(shortened(p.Data), uint16(7))
			}
		}
	}
}

func shortened(output []byte) (short []byte) {
	for line := range bytes.Lines(output) {
		if len(line) <= maxSeed/3 && len(short)+len(line) <= maxSeed {
			short = append(short, line...)
		}
	}
	return short
}
