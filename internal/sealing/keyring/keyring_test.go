package keyring_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/sealing/keyring"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

func open(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func sealer(t *testing.T, fills ...byte) *sealing.Sealer {
	t.Helper()
	var keys [][]byte
	for _, f := range fills {
		keys = append(keys, bytes.Repeat([]byte{f}, sealing.KeySize))
	}
	s, err := sealing.NewSealer(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clock is a clock that shows the time at until a test changes it.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)} }

func key(t *testing.T, k *keyring.Keyring, owner string, number uint32) sealing.DataKey {
	t.Helper()
	got, err := k.Key(t.Context(), owner, number)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFirstUseCreatesOneKey(t *testing.T) {
	t.Parallel()
	db := open(t)
	got := make([]sealing.DataKey, 8)
	var using sync.WaitGroup
	for i := range got {
		server := keyring.New(keyring.Config{Store: db, Sealer: sealer(t, 1)})
		using.Go(func() { got[i] = key(t, server, "org_1", 0) })
	}
	using.Wait()
	for _, k := range got {
		if k != got[0] || k.Number != 1 || k.Secret == [sealing.KeySize]byte{} {
			t.Errorf("the first use created several keys: %v", got)
		}
	}
	other := key(t, keyring.New(keyring.Config{Store: db, Sealer: sealer(t, 1)}), "org_2", 0)
	if other.Secret == got[0].Secret {
		t.Error("two organisations share a key")
	}
	if text := fmt.Sprintf("%v %+v %x", got[0], got[0], got[0]); text != "sealing.DataKey(1) sealing.DataKey(1) sealing.DataKey(1)" {
		t.Errorf("a key prints as %s", text)
	}
}

func TestRotationIsNoticedByOtherServers(t *testing.T) {
	t.Parallel()
	db, c := open(t), newClock()
	config := keyring.Config{Store: db, Sealer: sealer(t, 1), Now: c.now, Fresh: time.Minute}
	here, there := keyring.New(config), keyring.New(config)
	old := key(t, there, "org_1", 0)
	if row, err := here.Rotate(t.Context(), "org_1"); err != nil || row.Number != 2 {
		t.Fatalf("Rotate returned number %d, %v", row.Number, err)
	}
	if got := key(t, here, "org_1", 0); got.Number != 2 || got.Secret == old.Secret {
		t.Errorf("the current key of the rotating server is %v", got)
	}
	c.at = c.at.Add(time.Minute - 1)
	if got := key(t, there, "org_1", 0); got != old {
		t.Errorf("the other server read its current key %v too early", got)
	}
	c.at = c.at.Add(1)
	if got := key(t, there, "org_1", 0); got.Number != 2 {
		t.Errorf("after a minute the other server still has the current key %v", got)
	}
	if got := key(t, keyring.New(config), "org_1", 1); got != old {
		t.Error("the old key has changed")
	}
}

func TestMissingKey(t *testing.T) {
	t.Parallel()
	db := open(t)
	k := keyring.New(keyring.Config{Store: db, Sealer: sealer(t, 1)})
	key(t, k, "org_1", 0)
	for _, owner := range []string{"org_1", "org_2"} {
		if _, err := k.Key(t.Context(), owner, 7); !errors.Is(err, sealing.ErrNoDataKey) {
			t.Errorf("key 7 of %s: %v", owner, err)
		}
	}
	// If the sealer does not have the installation's key, the error is not ErrNoDataKey.
	if _, err := keyring.New(keyring.Config{Store: db, Sealer: sealer(t, 2)}).Key(t.Context(), "org_1", 1); !errors.Is(err, sealing.ErrUnknownKey) || errors.Is(err, sealing.ErrNoDataKey) {
		t.Errorf("with another key of the installation: %v", err)
	}
	// A key that was copied from one organisation to another cannot be opened.
	row, err := db.OrgKey(t.Context(), "org_1", 1)
	if err != nil {
		t.Fatal(err)
	}
	row.OrgID = "org_2"
	if _, err := db.AddOrgKey(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Key(t.Context(), "org_2", 1); !errors.Is(err, sealing.ErrDamaged) {
		t.Errorf("another organisation's key: %v", err)
	}
}

func TestRotateAll(t *testing.T) {
	t.Parallel()
	ctx, db, c := t.Context(), open(t), newClock()
	k := keyring.New(keyring.Config{Store: db, Sealer: sealer(t, 1), Now: c.now})
	at := stint.TimeOf(c.at)
	ids := stint.NewIDs(time.Now, rand.Reader)
	m, err := db.EnsureMember(ctx, store.Member{OrgID: ids.New(stint.PrefixOrg), OrgName: "acme", UserID: ids.New(stint.PrefixUser), UserName: "ann", Role: "owner", CreatedAt: at})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"", m.OrgID, "org_2"} {
		key(t, k, owner, 0)
	}
	acme := keyring.Info{Org: m.OrgID, OrgName: "acme", Number: 2, Current: true, CreatedAt: at}
	if got, err := k.RotateAll(ctx, "acme"); err != nil || cmp.Diff([]keyring.Info{acme}, got) != "" {
		t.Errorf("RotateAll(acme) returned %+v, %v", got, err)
	}
	if got, err := k.RotateAll(ctx, ""); err != nil || len(got) != 3 {
		t.Errorf("RotateAll returned %+v, %v", got, err)
	}
	if _, err := k.RotateAll(ctx, "nobody"); err == nil {
		t.Error("RotateAll of an unknown organisation succeeded")
	}
	list, err := k.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, i := range list {
		got[i.Org] = append(got[i.Org], fmt.Sprint(i.Number, i.Current))
	}
	want := map[string][]string{"": {"1 false", "2 true"}, m.OrgID: {"1 false", "2 false", "3 true"}, "org_2": {"1 false", "2 true"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// failingStore is a store in which Reseal fails with errBroken after left calls.
type failingStore struct {
	store.Keys
	left int
}

var errBroken = errors.New("the connection broke")

func (f *failingStore) Reseal(ctx context.Context, old store.SealedText, sealed []byte) (bool, error) {
	if f.left--; f.left < 0 {
		return false, errBroken
	}
	return f.Keys.Reseal(ctx, old, sealed)
}

// TestResealContinues interrupts Reseal after each text while the installation's key is
// changed. After each interruption, a sealer with both keys opens all texts. At the end, a
// sealer with only the new key opens them.
func TestResealContinues(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), open(t)
	was, both, now := sealer(t, 1), sealer(t, 2, 1), sealer(t, 2)
	before := keyring.New(keyring.Config{Store: db, Sealer: was})
	keys := []sealing.DataKey{key(t, before, "", 0), key(t, before, "org_1", 0)}
	kept := store.Secret{OrgID: "org_1", Secret: stint.Secret{Name: "KEY", CreatedAt: stint.TimeOf(time.Now()), UpdatedAt: stint.TimeOf(time.Now())}}
	var err error
	if kept.Sealed, err = was.Seal([]byte("hunter2"), kept.AssociatedData()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.PutSecret(ctx, kept); err != nil {
		t.Fatal(err)
	}
	holds := func(s *sealing.Sealer) {
		t.Helper()
		after := keyring.New(keyring.Config{Store: db, Sealer: s})
		if diff := cmp.Diff(keys, []sealing.DataKey{key(t, after, "", 1), key(t, after, "org_1", 1)}); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		list, err := db.Secrets(ctx, "org_1")
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := s.Open(list[0].Sealed, kept.AssociatedData()); err != nil || string(plain) != "hunter2" {
			t.Errorf("the secret is %q, %v", plain, err)
		}
	}
	for total, want := 0, 3; total < want; total++ {
		if _, err := keyring.Reseal(ctx, &failingStore{db, 1}, both); total < want-1 && !errors.Is(err, errBroken) {
			t.Fatalf("interrupted: %v", err)
		}
		holds(both)
	}
	if n, err := keyring.Reseal(ctx, db, both); n != 0 || err != nil {
		t.Errorf("at the end %d were resealed, %v", n, err)
	}
	holds(now)
}

// TestResealReportsUnreadableTexts checks that Reseal returns ErrUnknownKey if a text was
// sealed with a key that the sealer does not have, and that it reseals the other texts.
func TestResealReportsUnreadableTexts(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), open(t)
	k := keyring.New(keyring.Config{Store: db, Sealer: sealer(t, 1)})
	key(t, k, "org_1", 0)
	key(t, keyring.New(keyring.Config{Store: db, Sealer: sealer(t, 3)}), "org_0", 0)
	n, err := keyring.Reseal(ctx, db, sealer(t, 2, 1))
	if n != 1 || !errors.Is(err, sealing.ErrUnknownKey) {
		t.Errorf("resealed %d, %v", n, err)
	}
}
