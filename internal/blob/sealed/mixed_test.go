package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/blobtest"
	"github.com/stint-dev/stint/internal/blob/sealed"
)

func TestMixedStore(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Harness{New: func(t *testing.T) blob.Store {
		return sealed.Mixed{Primary: sealed.New(folder(t), newRing()), Secondary: folder(t)}
	}})
}

// presigningStore is a store that returns links to example.com.
type presigningStore struct{ blob.Store }

func (presigningStore) PresignGet(_ context.Context, key, _, _ string, _ time.Duration) (string, error) {
	return "https://example.com/" + key, nil
}

func TestMixedPresignsOnlyPrimary(t *testing.T) {
	t.Parallel()
	plain, secret := folder(t), sealed.New(folder(t), newRing())
	if _, ok := (sealed.Mixed{Primary: plain, Secondary: secret}).WithLinks().(blob.Presigner); ok {
		t.Error("Mixed has links, but Primary has none")
	}
	m := sealed.Mixed{Primary: presigningStore{plain}, Secondary: secret}.WithLinks()
	put(t, plain, "a", []byte("a"))
	put(t, secret, "b", []byte("b"))
	links := m.(blob.Presigner)
	if got, err := links.PresignGet(t.Context(), "a", "", "", time.Minute); err != nil || got != "https://example.com/a" {
		t.Errorf("the link is %q, %v", got, err)
	}
	if got, err := links.PresignGet(t.Context(), "b", "", "", time.Minute); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the link to an encrypted object is %q, %v", got, err)
	}
	if got := get(t, m, "b"); string(got) != "b" {
		t.Errorf("got %q", got)
	}
}

// TestMixedUnique checks that Put looks for an existing object in Secondary only if Unique
// returns false for the key.
func TestMixedUnique(t *testing.T) {
	t.Parallel()
	older := folder(t)
	m := sealed.Mixed{Primary: folder(t), Secondary: older, Unique: func(key string) bool { return key == "fresh" }}
	for _, key := range []string{"fresh", "again"} {
		put(t, older, key, []byte("older"))
		err := m.Put(t.Context(), key, bytes.NewReader([]byte("newer")), 5)
		if fresh := key == "fresh"; (err == nil) != fresh || !fresh && !errors.Is(err, blob.ErrExists) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestMixed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	below, older := folder(t), folder(t)
	m := sealed.Mixed{Primary: sealed.New(below, newRing()), Secondary: older}
	for _, key := range []string{"a", "c", "e", "f"} {
		put(t, older, key, []byte("old "+key))
	}
	for _, key := range []string{"b", "d", "g"} {
		put(t, m, key, []byte("new "+key))
	}
	if err := m.Put(ctx, "a", bytes.NewReader(nil), 0); !errors.Is(err, blob.ErrExists) {
		t.Errorf("putting an existing object: %v", err)
	}
	put(t, below, "e", get(t, below, "d")) // e is in both stores; Primary takes precedence
	var got []blob.Info
	for info, err := range m.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info)
	}
	var want []blob.Info
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		want = append(want, blob.Info{Key: key, Size: 5})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if a, b := get(t, m, "a"), get(t, m, "b"); string(a) != "old a" || string(b) != "new b" {
		t.Errorf("got %q and %q", a, b)
	}
	if _, err := read(ctx, m, "e", 0, -1); !errors.Is(err, sealed.ErrTampered) {
		t.Errorf("an object under another's name: %v", err)
	}
	for _, key := range []string{"a", "b", "e"} {
		if err := m.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Stat(ctx, key); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s after Delete: %v", key, err)
		}
	}
}
