package sealed_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/blobtest"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/sealing"
)

// ring derives each key from life, the owner's name, and the key's number. Two rings with
// different values of life have different keys with the same numbers. The newest key of
// each owner has the number current.
type ring struct {
	current atomic.Uint32
	life    string
}

func newRing() *ring {
	k := new(ring)
	k.current.Store(1)
	return k
}

func (k *ring) Key(_ context.Context, owner string, number uint32) (sealing.DataKey, error) {
	if number > k.current.Load() {
		return sealing.DataKey{}, fmt.Errorf("key %d: %w", number, sealing.ErrNoDataKey)
	}
	if number == 0 {
		number = k.current.Load()
	}
	return sealing.DataKey{Number: number, Secret: sha256.Sum256(fmt.Appendf(nil, "%s%s %d", k.life, owner, number))}, nil
}

func folder(t testing.TB) *localfs.Store {
	t.Helper()
	s, err := localfs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return b
}

func put(t testing.TB, s blob.Store, key string, content []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

func read(ctx context.Context, s blob.Store, key string, offset, n int64) ([]byte, error) {
	r, err := s.Get(ctx, key, offset, n)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func get(t testing.TB, s blob.Store, key string) []byte {
	t.Helper()
	b, err := read(t.Context(), s, key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Harness{New: func(t *testing.T) blob.Store { return sealed.New(folder(t), newRing()) }})
}

const block = 16 << 10

// TestRanges reads ranges around every block border, with and without a cached cipher, and
// checks the sizes that Stat returns.
func TestRanges(t *testing.T) {
	t.Parallel()
	inner, keys := folder(t), newRing()
	s := sealed.New(inner, keys)
	for _, size := range []int64{0, 1, block - 1, block, block + 1, 2 * block, 3*block + 7} {
		key, content := fmt.Sprintf("org_1/packs/%d", size), noise(int(size))
		put(t, s, key, content)
		if got, err := s.Stat(t.Context(), key); err != nil || got.Size != size {
			t.Errorf("Stat of %d bytes returned %+v, %v", size, got, err)
		}
		for _, offset := range []int64{0, 1, block - 1, block, block + 1, 2 * block, 3 * block, 3*block + 6, 3*block + 7, 9 * block} {
			for _, n := range []int64{-1, 0, 1, 5000, block, block + 1, 1 << 62} {
				want := content[min(offset, size):]
				if n >= 0 && n < int64(len(want)) {
					want = want[:n]
				}
				for name, s := range map[string]*sealed.Store{"warm": s, "cold": sealed.New(inner, keys)} {
					if got, err := read(t.Context(), s, key, offset, n); err != nil || !bytes.Equal(want, got) {
						t.Errorf("%s, %d bytes, Get(%d, %d) returned %d bytes, %v; want %d", name, size, offset, n, len(got), err, len(want))
					}
				}
			}
		}
	}
}

func TestContentIsUnreadable(t *testing.T) {
	t.Parallel()
	inner := folder(t)
	s := sealed.New(inner, newRing())
	content := bytes.Repeat([]byte("attack at dawn. "), 4000)
	put(t, s, "org_1/packs/a", content)
	put(t, s, "org_1/packs/b", content)
	a, b := get(t, inner, "org_1/packs/a"), get(t, inner, "org_1/packs/b")
	if bytes.Contains(a, []byte("attack")) || bytes.Equal(a[48:], b[48:]) {
		t.Error("the stored object contains the content")
	}
}

// TestEveryChange flips each bit of a small object, truncates the object to each length,
// and appends a byte. Reading each result must fail.
func TestEveryChange(t *testing.T) {
	t.Parallel()
	inner, keys := newMemory(), newRing()
	put(t, sealed.New(inner, keys), "org_1/packs/a", []byte("attack at dawn"))
	good := bytes.Clone(inner.objects["org_1/packs/a"])
	refused := func(what string, object []byte) {
		inner.objects["org_1/packs/a"] = object
		got, err := read(t.Context(), sealed.New(inner, keys), "org_1/packs/a", 0, -1)
		lost := errors.Is(err, sealing.ErrNoDataKey) || errors.Is(err, sealed.ErrOtherKey) // the changed bit was in the key's number or check value
		if !lost && !errors.Is(err, sealed.ErrTampered) || lost == errors.Is(err, blob.ErrDamaged) {
			t.Errorf("%s: returned %q, %v", what, got, err)
		}
	}
	for i := range good {
		for bit := range 8 {
			changed := bytes.Clone(good)
			changed[i] ^= 1 << bit
			refused(fmt.Sprintf("bit %d of byte %d", bit, i), changed)
		}
		refused(fmt.Sprintf("cut at %d", i), good[:i])
	}
	refused("one byte more", append(bytes.Clone(good), 0))
}

// TestForgeries makes changes that an attacker with access to the storage can make. Reading
// a changed object must fail.
func TestForgeries(t *testing.T) {
	t.Parallel()
	const head, rest = 48, block + 16
	cut := func(o []byte, from, to int) []byte { return o[head+from*rest : min(len(o), head+to*rest)] }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, forge := range map[string]func(o, other []byte) []byte{
		"another object":         func(_, other []byte) []byte { return other },
		"another header":         func(o, other []byte) []byte { return join(other[:head], o[head:]) },
		"another's block":        func(o, other []byte) []byte { return join(o[:head], cut(o, 0, 1), cut(other, 1, 2), o[head+2*rest:]) },
		"blocks swapped":         func(o, _ []byte) []byte { return join(o[:head], cut(o, 1, 2), cut(o, 0, 1), o[head+2*rest:]) },
		"a block left out":       func(o, _ []byte) []byte { return join(o[:head], cut(o, 0, 1), o[head+2*rest:]) },
		"a block twice":          func(o, _ []byte) []byte { return join(o[:head], cut(o, 0, 1), cut(o, 0, 1), o[head+rest:]) },
		"the last block left":    func(o, _ []byte) []byte { return join(o[:head], o[head+3*rest:]) },
		"cut at a block's end":   func(o, _ []byte) []byte { return o[:head+2*rest] },
		"cut after the header":   func(o, _ []byte) []byte { return o[:head] },
		"an empty block more":    func(o, _ []byte) []byte { return join(o, make([]byte, 16)) },
		"never sealed":           func(_, _ []byte) []byte { return []byte(strings.Repeat("plain ", 20000)) },
		"sealed for another org": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner, keys := newMemory(), newRing()
			s := sealed.New(inner, keys)
			put(t, s, "org_1/packs/a", noise(3*block+9))
			put(t, s, "org_1/packs/b", noise(3*block+8))
			if o := inner.objects["org_1/packs/a"]; forge != nil {
				inner.objects["org_1/packs/a"] = forge(o, inner.objects["org_1/packs/b"])
			} else {
				put(t, s, "org_2/packs/a", noise(3*block+9))
				inner.objects["org_1/packs/a"] = inner.objects["org_2/packs/a"]
			}
			want := sealed.ErrTampered
			if name == "sealed for another org" {
				want = sealed.ErrOtherKey
			}
			for which, s := range map[string]*sealed.Store{"warm": s, "cold": sealed.New(inner, keys)} {
				if _, err := read(t.Context(), s, "org_1/packs/a", 0, -1); !errors.Is(err, want) {
					t.Errorf("%s: reading all: %v", which, err)
				}
				if got, err := read(t.Context(), s, "org_1/packs/a", 9*block, 1); !errors.Is(err, want) && name != "another's block" && name != "blocks swapped" {
					t.Errorf("%s: reading past the end returned %q, %v", which, got, err)
				}
			}
		})
	}
}

// TestImpossibleSize truncates an object to a size that no sealed object has. List returns
// the truncated object with that size, Stat reports the object as damaged, and Put reports
// that the object exists.
func TestImpossibleSize(t *testing.T) {
	t.Parallel()
	inner := newMemory()
	s := sealed.New(inner, newRing())
	for _, key := range []string{"org_1/a", "org_1/b", "org_1/c"} {
		put(t, s, key, noise(100))
	}
	inner.objects["org_1/b"] = inner.objects["org_1/b"][:50]
	put(t, inner, "org_1/d", noise(5))
	for name, list := range map[string]blob.Store{
		"sealed":            s,
		"sealed is written": sealed.Mixed{Primary: s, Secondary: newMemory()},
		"sealed is older":   sealed.Mixed{Primary: newMemory(), Secondary: s},
	} {
		var got []blob.Info
		for info, err := range list.List(t.Context(), "org_1/") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info)
		}
		want := []blob.Info{{Key: "org_1/a", Size: 100}, {Key: "org_1/b", Size: 50}, {Key: "org_1/c", Size: 100}, {Key: "org_1/d", Size: 5}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if info, err := list.Stat(t.Context(), "org_1/b"); !errors.Is(err, blob.ErrDamaged) || info.Size != 50 {
			t.Errorf("%s: Stat returned %+v, %v", name, info, err)
		}
	}
	if err := (sealed.Mixed{Primary: newMemory(), Secondary: s}).Put(t.Context(), "org_1/b", strings.NewReader("x"), 1); !errors.Is(err, blob.ErrExists) {
		t.Errorf("Put over it returned %v", err)
	}
}

// TestPutAgain reads an object through a store that has cached the cipher of a deleted
// object with the same key.
func TestPutAgain(t *testing.T) {
	t.Parallel()
	inner, keys := folder(t), newRing()
	a, b := sealed.New(inner, keys), sealed.New(inner, keys)
	put(t, a, "org_1/x", noise(2*block))
	get(t, a, "org_1/x")
	if err := b.Delete(t.Context(), "org_1/x"); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t.Context(), a, "org_1/x", 0, 1); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a deleted object: %v", err)
	}
	put(t, b, "org_1/x", noise(3*block))
	if diff := cmp.Diff(noise(3 * block)[block:], must(read(t.Context(), a, "org_1/x", block, -1))); diff != "" {
		t.Error("the object that was put again differs")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	inner, keys := newMemory(), newRing()
	s := sealed.New(inner, keys)
	put(t, s, "org_1/old", noise(10))
	keys.current.Store(2)
	put(t, s, "org_1/new", noise(11))
	for key, want := range map[string]byte{"org_1/old": 1, "org_1/new": 2} {
		if got := inner.objects[key][15]; got != want {
			t.Errorf("%s is encrypted under the key %d, want %d", key, got, want)
		}
		get(t, sealed.New(inner, keys), key)
	}
}

// TestOtherKey reads an object with a key that has the right number but another value, as
// after the keys were lost and created anew. The error is ErrOtherKey, and the object is
// not reported as damaged.
func TestOtherKey(t *testing.T) {
	t.Parallel()
	inner, anew := newMemory(), newRing()
	anew.life = "anew "
	s := sealed.New(inner, newRing())
	put(t, s, "org_1/a", noise(3*block))
	for offset := range int64(4) {
		_, err := read(t.Context(), sealed.New(inner, anew), "org_1/a", offset*block, 1)
		if !errors.Is(err, sealed.ErrOtherKey) || errors.Is(err, blob.ErrDamaged) {
			t.Errorf("block %d: %v", offset, err)
		}
	}
	if !bytes.Equal(get(t, s, "org_1/a"), noise(3*block)) {
		t.Error("with its own key the content differs")
	}
	old := encode(1, must(newRing().Key(t.Context(), "org_1", 1)), "org_1/a", noise(10))
	inner.objects["org_1/a"] = old // version 1 has no check value, so the wrong key is not recognised
	if _, err := read(t.Context(), sealed.New(inner, anew), "org_1/a", 0, 1); !errors.Is(err, sealed.ErrTampered) {
		t.Errorf("the first version: %v", err)
	}
}

// TestUnexpectedEOFIsAnError checks that io.ErrUnexpectedEOF of a reader does not
// count as the end of the content.
func TestUnexpectedEOFIsAnError(t *testing.T) {
	t.Parallel()
	s := sealed.New(folder(t), newRing())
	r := io.MultiReader(bytes.NewReader(noise(100)), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := s.Put(t.Context(), "a", r, -1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Put returned %v", err)
	}
	if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat returned %v", err)
	}
}

func TestReadAllocations(t *testing.T) {
	s := sealed.New(newMemory(), newRing())
	buf := make([]byte, 64<<10)
	cost := func(blocks int) float64 {
		key, content := fmt.Sprintf("org_1/%d", blocks), noise(blocks*block)
		put(t, s, key, content)
		return testing.AllocsPerRun(5, func() {
			r := must(s.Get(t.Context(), key, 0, -1))
			for {
				if _, err := r.Read(buf); err != nil {
					break
				}
			}
			r.Close()
		})
	}
	if few, many := cost(2), cost(200); many > few {
		t.Errorf("2 blocks are read with %g allocations, 200 with %g", few, many)
	}
}

// FuzzHeader reads arbitrary bytes as an object. Reading must return an error and must not
// panic.
func FuzzHeader(f *testing.F) {
	keys := newRing()
	seeds := newMemory()
	put(f, sealed.New(seeds, keys), "org_1/seed", noise(100))
	f.Add(seeds.objects["org_1/seed"], int64(0), int64(-1))
	f.Add(encode(1, must(keys.Key(f.Context(), "org_1", 1)), "org_1/seed", noise(100)), int64(0), int64(-1))
	f.Add([]byte("\x89STINTe\n\x01\x0e\x00\x00\x00\x00\x00\x01"), int64(1), int64(10))
	f.Fuzz(func(t *testing.T, object []byte, offset, n int64) {
		inner := newMemory()
		inner.objects["org_1/a"] = object
		if got, err := read(t.Context(), sealed.New(inner, keys), "org_1/a", offset&0xfffff, n); n != 0 && !errors.Is(err, sealed.ErrTampered) &&
			!errors.Is(err, sealing.ErrNoDataKey) && !errors.Is(err, sealed.ErrOtherKey) {
			t.Errorf("returned %q, %v", got, err)
		}
	})
}
