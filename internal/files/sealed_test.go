package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/sealing"
)

// ring is a keyring with the keys 1 to ring. Number 0 means the newest key.
type ring uint32

func (k ring) Key(_ context.Context, owner string, number uint32) (sealing.DataKey, error) {
	if number == 0 {
		number = uint32(k)
	}
	if number > uint32(k) {
		return sealing.DataKey{}, fmt.Errorf("key %d: %w", number, sealing.ErrNoDataKey)
	}
	return sealing.DataKey{Number: number, Secret: sha256.Sum256(fmt.Appendf(nil, "%s %d", owner, number))}, nil
}

// anew is a keyring whose key 1 is that of ring. Its other keys differ from those
// of ring.
type anew struct{ ring }

func (k anew) Key(ctx context.Context, owner string, number uint32) (sealing.DataKey, error) {
	if number != 1 {
		owner = "anew " + owner
	}
	return k.ring.Key(ctx, owner, number)
}

// encrypted returns the entries of a tree. In the pack of the tree, the chunks, the
// page, and the end of the footer are in separate encrypted blocks.
func encrypted() (items []item) {
	items = append(items, item{name: "a", body: noise(1, 100_000)})
	for i := range 400 {
		items = append(items, item{name: fmt.Sprintf("f%03d", i), body: fmt.Appendf(nil, "file %d", i)})
	}
	return items
}

// TestDamagedEncryptedObjects damages an encrypted object. Check reports the object
// and repairs it if possible. MissingChunks does not fail. Collect fails only if the
// tree is unreadable.
func TestDamagedEncryptedObjects(t *testing.T) {
	t.Parallel()
	const head, block = 48, 16<<10 + 16
	items := encrypted()
	for name, c := range map[string]struct {
		hurt    func(object []byte) []byte
		root    bool // the root is damaged instead of the pack
		uses    int64
		missing int  // chunks that MissingChunks returns; 1 if the footer is unreadable
		ends    bool // Collect fails, because the tree is unreadable
		repair  bool
	}{
		"a chunk":            {hurt: func(o []byte) []byte { o[head+2*block]++; return o }, uses: 1, repair: true},
		"a footer":           {hurt: func(o []byte) []byte { o[len(o)-1]++; return o }, missing: 1, repair: true},
		"a header":           {hurt: func(o []byte) []byte { o[0]++; return o }, uses: 1, missing: 1, ends: true},
		"a cut pack":         {hurt: func(o []byte) []byte { return o[:head+block+50] }, uses: 1, missing: 1, ends: true},
		"an impossible size": {hurt: func(o []byte) []byte { return o[:head+block+5] }, uses: 1, missing: 1, ends: true},
		"a root":             {hurt: func(o []byte) []byte { o[head]++; return o }, root: true, uses: 1, ends: true},
		"a cut root":         {hurt: func(o []byte) []byte { return o[:head+5] }, root: true, uses: 1, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, names := newMemory(), newNames()
			open := func() *files.Library {
				return newLibrary(t, sealed.New(s, ring(1)), files.Options{
					Index: newMemoryIndex(), Marks: garbage{names},
					Now: func() time.Time { return time.Now().Add(48 * time.Hour) }, // all commits have ended
				})
			}
			ref := stored(t, open(), "", items...)
			if err := names.name(ref); err != nil {
				t.Fatal(err)
			}
			key := org + "/packs/" + packs(s)[0]
			if c.root {
				key = org + "/manifests/" + ref.Digest
			}
			s.objects[key] = c.hurt(bytes.Clone(s.objects[key]))
			l := open()
			missing, err := l.MissingChunks(t.Context(), org, [][32]byte{sha256.Sum256(items[7].body)})
			if len(missing) != c.missing || err != nil {
				t.Errorf("MissingChunks returns %d chunks, %v", len(missing), err)
			}
			if _, err := l.Collect(t.Context(), org, names, files.CollectOptions{}); (err != nil) != c.ends {
				t.Errorf("Collect returns %v", err)
			}
			trees := map[string]files.Ref{"old": ref}
			got := checked(t, l, trees, files.CheckOptions{})
			if len(got.Damages) != 1 || got.Damages[0].Key != key || got.Damages[0].Problem != "damaged" || got.Damages[0].Uses != c.uses {
				t.Fatalf("Check = %+v", got)
			}
			stored(t, open(), "", item{name: "copy", body: items[0].body})
			got = checked(t, l, trees, files.CheckOptions{Repair: true})
			if got.Damaged != 1 || got.Repaired == 1 != c.repair {
				t.Errorf("Repair = %+v", got)
			}
			if c.repair {
				isSound(t, l, trees, items)
			}
		})
	}
}

// TestLostKeyIsNotDamage checks that Check and Collect fail, and delete no object, if
// a key is missing or replaced by another key.
func TestLostKeyIsNotDamage(t *testing.T) {
	t.Parallel()
	s, names := newMemory(), newNames()
	open := func(keys sealed.Keys) *files.Library {
		return newLibrary(t, sealed.New(s, keys), files.Options{Index: newMemoryIndex(), Marks: garbage{names}})
	}
	trees := map[string]files.Ref{"old": stored(t, open(ring(1)), "", encrypted()...)}
	trees["young"] = stored(t, open(ring(2)), "", append([]item{{name: "0", body: []byte("new")}}, encrypted()...)...)
	before := s.keys()
	for name, ref := range trees {
		if err := names.name(ref); err != nil {
			t.Fatal(name, err)
		}
	}
	for _, c := range []struct {
		keys sealed.Keys
		want error
	}{{ring(1), sealing.ErrNoDataKey}, {anew{2}, sealed.ErrOtherKey}} {
		l := open(c.keys)
		if _, err := l.Check(t.Context(), org, named(trees), files.CheckOptions{Read: true, Repair: true}); !errors.Is(err, c.want) || !strings.Contains(err.Error(), org) {
			t.Errorf("Check returns %v, want %v", err, c.want)
		}
		if _, err := l.Collect(t.Context(), org, names, files.CollectOptions{}); !errors.Is(err, c.want) {
			t.Errorf("Collect returns %v, want %v", err, c.want)
		}
	}
	if diff := cmp.Diff(before, s.keys()); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
	if got := checked(t, open(ring(2)), trees, files.CheckOptions{}); got.Damaged != 0 {
		t.Errorf("with its key Check = %+v", got)
	}
}
