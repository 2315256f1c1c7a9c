package index_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/index"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pack describes a pack with the n chunks from the number first.
type pack struct{ first, n int }

// chunk returns the chunk with the number first+i.
func (p pack) chunk(i int) format.Segment {
	length := uint32(p.first+i)%977 + 1
	return format.Segment{Kind: format.ChunkSegment, Hash: hashOf(p.first + i), Offset: uint32(i) * 1000, Length: length, Size: 2 * length, CRC: uint32(p.first * i)}
}

// chunks returns the chunks of the pack, preceded by a page, which the index
// ignores.
func (p pack) chunks() []format.Segment {
	all := make([]format.Segment, p.n+1)
	all[0] = format.Segment{Kind: format.PageSegment, Hash: hashOf(p.first)}
	for i := range p.n {
		all[i+1] = p.chunk(i)
	}
	return all
}

// model is the expected content of an index.
type model map[string]pack

// places returns the chunk with the number n, once for each pack that contains it.
func (m model) places(n int) (all []format.Chunk) {
	for name, p := range m {
		if i := n - p.first; i >= 0 && i < p.n {
			c := p.chunk(i)
			all = append(all, format.Chunk{Hash: c.Hash, Size: c.Size, Place: format.Place{Pack: name, Offset: c.Offset, Length: c.Length, CRC: c.CRC}})
		}
	}
	slices.SortFunc(all, func(a, b format.Chunk) int { return cmp.Compare(a.Place.Pack, b.Place.Pack) })
	return all
}

// hashOf returns the hash of the chunk with the number n. Hashes are distinct, but
// the last bytes of up to ten of them are equal.
func hashOf(n int) (h format.Hash) {
	for i := range 4 {
		x := uint64(n*4+i+1) * 0x9e3779b97f4a7c15
		x ^= x >> 29
		binary.LittleEndian.PutUint64(h[8*i:], x*0xbf58476d1ce4e5b9)
	}
	if n%9 == 0 {
		binary.LittleEndian.PutUint32(h[28:], uint32(n/90)) // the index finds hashes by these bytes
	}
	return h
}

func open(t testing.TB, dir string) *index.Index {
	t.Helper()
	x, err := index.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func add(t testing.TB, x *index.Index, org, name string, p pack) {
	t.Helper()
	if err := x.Add(org, name, p.chunks()); err != nil {
		t.Fatal(err)
	}
}

// check compares the packs and some chunks of the index with the model.
func check(t failer, x *index.Index, org string, m model, hashes int) {
	t.Helper()
	packs := slices.Collect(x.Packs(org))
	if want := slices.Sorted(maps.Keys(m)); !slices.Equal(want, packs) {
		t.Fatalf("packs (-want +got):\n%s", gocmp.Diff(want, packs))
	}
	for n := range hashes {
		h := hashOf(n)
		got, err := x.Places(org, h)
		if err != nil {
			t.Fatalf("Places: %v", err)
		}
		want := m.places(n)
		if !slices.Equal(want, got) {
			t.Fatalf("places of chunk %d (-want +got):\n%s", n, gocmp.Diff(want, got))
		}
		at, ok, err := x.Find(org, h)
		if err != nil || ok != (len(want) > 0) || ok && !slices.Contains(want, at) {
			t.Fatalf("Find(%d) = %+v, %v, %v; want one of %+v", n, at, ok, err, want)
		}
	}
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func TestFindAfterAdd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := open(t, dir)
	m := model{}
	for i := range 60 {
		name := fmt.Sprintf("%04d", i)
		m[name] = pack{i * 1500, 3000} // half of the chunks are also in the next pack
		add(t, x, "org_a", name, m[name])
	}
	check(t, x, "org_a", m, 3200)
	check(t, x, "org_b", model{}, 20)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, open(t, dir), "org_a", m, 3200)
}

// TestSoakAgainstMap compares the index with a map after random operations, which
// include closing and opening it again.
func TestSoakAgainstMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "x")
		if err != nil {
			rt.Fatal(err)
		}
		x, err := index.Open(dir)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { x.Close() }()
		m, dropped := model{}, map[string]bool{}
		name := rapid.StringMatching(`[a-c]{1,3}`)
		packs := rapid.Custom(func(rt *rapid.T) pack {
			return pack{rapid.IntRange(0, 50).Draw(rt, "first"), rapid.SampledFrom([]int{0, 1, 1, 40, 40, 300, 3000, 33_000}).Draw(rt, "n")}
		})
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				pack := name.Filter(func(p string) bool { return !dropped[p] }).Draw(rt, "pack")
				c := packs.Draw(rt, "chunks")
				if err := x.Add("org_a", pack, c.chunks()); err != nil {
					rt.Fatal(err)
				}
				if _, known := m[pack]; !known {
					m[pack] = c
				}
			},
			"drop": func(rt *rapid.T) {
				packs := rapid.SliceOfN(name, 0, 4).Draw(rt, "packs")
				if err := x.Drop("org_a", packs); err != nil {
					rt.Fatal(err)
				}
				for _, p := range packs {
					delete(m, p)
					dropped[p] = true
				}
			},
			"reopen": func(rt *rapid.T) {
				if err := x.Close(); err != nil {
					rt.Fatal(err)
				}
				if x, err = index.Open(dir); err != nil {
					rt.Fatal(err)
				}
			},
			"has": func(rt *rapid.T) {
				pack := name.Draw(rt, "pack")
				if _, want := m[pack]; x.Has("org_a", pack) != want {
					rt.Fatalf("Has(%q) = %v", pack, !want)
				}
			},
			"": func(rt *rapid.T) { check(rt, x, "org_a", m, 25) },
		})
	})
}

func TestDropIsFinal(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	add(t, x, "org_a", "p", pack{0, 10})
	if err := x.Drop("org_a", []string{"p", "q"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p", "q"} { // as concurrent commits do
		add(t, x, "org_a", name, pack{0, 10})
	}
	check(t, x, "org_a", model{}, 10)
}

// TestConcurrentFind adds and drops packs while other goroutines find chunks.
func TestConcurrentFind(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	m := model{}
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if _, _, err := x.Find("org_a", hashOf(n%5000)); err != nil {
					t.Errorf("Find: %v", err)
					return
				}
			}
		})
	}
	for i := range 50 {
		name := fmt.Sprintf("%04d", i)
		m[name] = pack{i * 50, 12_000}
		add(t, x, "org_a", name, m[name])
		if i%3 == 2 {
			gone := fmt.Sprintf("%04d", i-2)
			if err := x.Drop("org_a", []string{gone}); err != nil {
				t.Fatal(err)
			}
			delete(m, gone)
		}
	}
	close(done)
	readers.Wait()
	check(t, x, "org_a", m, 30)
}

// TestManyPacks adds many small packs.
func TestManyPacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := open(t, dir)
	m := model{}
	for i := range 5000 {
		name := fmt.Sprintf("%04d", i)
		m[name] = pack{i, 2}
		add(t, x, "org_a", name, m[name])
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	if err := x.Drop("org_a", []string{"0002"}); err != nil {
		t.Fatal(err)
	}
	delete(m, "0002")
	check(t, x, "org_a", m, 50)
}

func TestManyOrganisations(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	for range 2 {
		for i := range 80 {
			add(t, x, fmt.Sprintf("org_%d", i), "p", pack{i, 5})
		}
	}
	for i := range 80 {
		org := fmt.Sprintf("org_%d", i)
		at, ok, err := x.Find(org, hashOf(i+3))
		if want := (model{"p": pack{i, 5}}).places(i + 3); err != nil || !ok || at != want[0] {
			t.Errorf("Find in %s returns %+v, %v, %v; want %+v", org, at, ok, err, want)
		}
	}
}

// TestBusyOrganisationDoesNotBlockOthers uses more organisations than are kept in
// memory while the first one is in use.
func TestBusyOrganisationDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	add(t, x, "org_busy", "p", pack{0, 1})
	release := x.Hold("org_busy")
	for i := range 80 {
		add(t, x, fmt.Sprintf("org_%d", i), "p", pack{i, 1})
	}
	waiting := make(chan error, 1)
	go func() { waiting <- x.Add("org_busy", "q", pack{1, 1}.chunks()) }()
	check(t, x, "org_1", model{"p": {1, 1}}, 3)
	select {
	case err := <-waiting:
		t.Errorf("an Add did not wait for the busy organisation, %v", err)
	default:
	}
	release()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	check(t, x, "org_busy", model{"p": {0, 1}, "q": {1, 1}}, 3)
}

// TestBusyOrganisationIsUnloadedLater uses more organisations than are kept in memory
// while the first one is in use. The first one must not stay in memory for ever.
func TestBusyOrganisationIsUnloadedLater(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	add(t, x, "org_busy", "p", pack{0, 1})
	release := x.Hold("org_busy")
	for i := range 80 {
		add(t, x, fmt.Sprintf("org_%d", i), "p", pack{i, 1})
	}
	release()
	add(t, x, "org_more", "p", pack{0, 1})
	if n := x.Loaded(); n > index.MaxLoaded {
		t.Errorf("%d organisations are in memory, want at most %d", n, index.MaxLoaded)
	}
}

// TestConcurrentOrganisations adds packs and looks them up while organisations
// are unloaded.
func TestConcurrentOrganisations(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	var users sync.WaitGroup
	for u := range 6 {
		users.Go(func() {
			for i := range 240 {
				org := fmt.Sprintf("org_%d", (i*7+u*11)%60)
				name := fmt.Sprintf("%d-%d", u, i)
				if err := x.Add(org, name, (pack{i, 3}).chunks()); err != nil {
					t.Error(err)
				}
				if !x.Has(org, name) {
					t.Errorf("%s in %s is missing", name, org)
				}
			}
		})
	}
	users.Wait()
	n := 0
	for i := range 60 {
		n += len(slices.Collect(x.Packs(fmt.Sprintf("org_%d", i))))
	}
	if n != 6*240 {
		t.Errorf("there are %d packs", n)
	}
}

// TestDroppedPacksAreRemoved checks that the log is compacted.
func TestDroppedPacksAreRemoved(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), model{"kept": {0, 3000}}
	x := open(t, dir)
	add(t, x, "org_a", "kept", m["kept"])
	for i := range 40 {
		name := fmt.Sprintf("%04d", i)
		add(t, x, "org_a", name, pack{i * 100, 5000})
		if err := x.Drop("org_a", []string{name}); err != nil {
			t.Fatal(err)
		}
	}
	check(t, x, "org_a", m, 30)
	info, err := os.Stat(filepath.Join(dir, "org_a", "chunks.log"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 2<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("after all but 3000 chunks were dropped, the log has %d bytes and the mode %o", info.Size(), info.Mode().Perm())
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, open(t, dir), "org_a", m, 30)
}

func TestFolderInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := open(t, dir)
	if _, err := index.Open(dir); !errors.Is(err, index.ErrInUse) {
		t.Errorf("a second Open returns %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Find("org_a", hashOf(1)); err == nil {
		t.Error("a closed index finds a chunk")
	}
	open(t, dir)
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	for _, org := range []string{"", "..", "a/b", "lock", "A"} {
		if err := x.Add(org, "p", nil); err == nil {
			t.Errorf("the organisation %q is accepted", org)
		}
	}
	for _, pack := range []string{"", "a\x00", string(bytes.Repeat([]byte("a"), 201))} {
		if err := x.Add("org_a", pack, nil); err == nil {
			t.Errorf("the pack %q is accepted", pack)
		}
	}
}

func BenchmarkAdd20000(b *testing.B) {
	x := open(b, b.TempDir())
	all := pack{0, 20_000}.chunks()
	for i := 0; b.Loop(); i++ {
		for j := range all {
			binary.BigEndian.PutUint32(all[j].Hash[4:], uint32(i*7919)) // different hashes in each iteration
			all[j].Hash[20] = byte(i)
		}
		if err := x.Add("org_a", fmt.Sprintf("%08d", i), all); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	x := open(b, b.TempDir())
	for i := range 500 {
		add(b, x, "org_a", fmt.Sprintf("%08d", i), pack{i * 1000, 1000})
	}
	for name, first := range map[string]int{"present": 0, "absent": 1_000_000} {
		hashes := make([]format.Hash, 50_000)
		for i := range hashes {
			hashes[i] = hashOf(first + i*9 + 1)
		}
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, ok, err := x.Find("org_a", hashes[i%len(hashes)]); err != nil || ok != (first == 0) {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
