package sealed_test

import (
	"context"
	"io"
	"testing"

	"github.com/stint-dev/stint/internal/blob/sealed"
)

const large = 64 << 20

func BenchmarkReadAll(b *testing.B) {
	s := sealed.New(newMemory(), newRing())
	put(b, s, "org_1/a", noise(large))
	buf := make([]byte, 64<<10)
	b.SetBytes(large)
	b.ReportAllocs()
	for b.Loop() {
		r := must(s.Get(b.Context(), "org_1/a", 0, -1))
		for {
			if _, err := r.Read(buf); err != nil {
				break
			}
		}
	}
}

func BenchmarkRead5KB(b *testing.B) {
	s := sealed.New(newMemory(), newRing())
	put(b, s, "org_1/a", noise(large))
	buf := make([]byte, 5000)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		r := must(s.Get(b.Context(), "org_1/a", i*7919*4096%(large-5000), 5000))
		must(io.ReadFull(r, buf))
		r.Close()
	}
}

// discard is a store with a Put that reads the content and does not store it.
type discard struct{ *memory }

func (discard) Put(_ context.Context, _ string, r io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func BenchmarkWrite(b *testing.B) {
	content := noise(large)
	b.SetBytes(large)
	b.ReportAllocs()
	s := sealed.New(discard{newMemory()}, newRing())
	for b.Loop() {
		put(b, s, "org_1/a", content)
	}
}
