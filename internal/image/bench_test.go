package image_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/stint-dev/stint/internal/image"
	"github.com/stint-dev/stint/internal/image/imagetest"
)

// sample returns a layer like those of a distribution, plain and compressed: many
// small files and a few large ones. Compression halves its size.
func sample(t testing.TB) (plain, gz []byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var all []entry
	for i := range 6000 {
		size := 1 << (8 + random.IntN(9))
		if i%200 == 0 {
			size = 1 << 20
		}
		data := make([]byte, size)
		for j := range data {
			data[j] = "abcdefghijklmnop"[random.IntN(16)]
		}
		all = append(all, file(fmt.Sprintf("usr/lib/part%d/sub%d/file%d", i/1000, i/50, i), string(data)))
	}
	plain = layer(t, all...)
	return plain, gzipped(t, plain)
}

func BenchmarkUnpack(b *testing.B) {
	plain, gz := sample(b)
	for name, content := range map[string][]byte{"plain": plain, "gzip": gz} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				root := b.TempDir()
				if err := image.Unpack(b.Context(), root, 1<<40, 1<<30, content); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				_ = os.RemoveAll(root)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkTar unpacks the layer of BenchmarkUnpack with the system's tar, for
// comparison.
func BenchmarkTar(b *testing.B) {
	plain, gz := sample(b)
	for flags, content := range map[string][]byte{"-xf": plain, "-xzf": gz} {
		b.Run(flags, func(b *testing.B) {
			archive := filepath.Join(b.TempDir(), "layer")
			if err := os.WriteFile(archive, content, 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				root := b.TempDir()
				if out, err := exec.Command("tar", flags, archive, "-C", root).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				b.StopTimer()
				_ = os.RemoveAll(root)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkAcquire measures Acquire of an image that must be pulled from a registry on
// this machine, and of an image that is already stored.
func BenchmarkAcquire(b *testing.B) {
	plain, gz := sample(b)
	host := imagetest.Registry(b)
	ref, _ := imagetest.PushLayers(b, host, "sample", v1.Config{}, static.NewLayer(gz, types.OCILayer))
	b.Run("pull", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			s := open(b, image.Config{KeepBytes: 1})
			acquire(b, s, ref).Release()
			s.Close()
		}
	})
	b.Run("there", func(b *testing.B) {
		s := open(b, image.Config{})
		acquire(b, s, ref).Release()
		for b.Loop() {
			acquire(b, s, ref).Release()
		}
	})
}
