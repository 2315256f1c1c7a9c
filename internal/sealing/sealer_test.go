package sealing_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sealing"
)

func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, sealing.KeySize) }

func sealer(t testing.TB, primary []byte, older ...[]byte) *sealing.Sealer {
	t.Helper()
	s, err := sealing.NewSealer(primary, older...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func seal(t testing.TB, s *sealing.Sealer, plain, owner string) []byte {
	t.Helper()
	sealed, err := s.Seal([]byte(plain), []byte(owner))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := sealer(t, key(1))
	for _, plain := range []string{"", "x", string(make([]byte, 1<<16))} {
		sealed := seal(t, s, plain, "run_1")
		got, err := s.Open(sealed, []byte("run_1"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain, string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if bytes.Equal(sealed, seal(t, s, plain, "run_1")) {
			t.Error("sealing the same text twice returned the same bytes")
		}
	}
}

func TestOtherOwnersCannotOpen(t *testing.T) {
	t.Parallel()
	s := sealer(t, key(1))
	sealed := seal(t, s, "hunter2", "run_1")
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Fatal("the text is readable")
	}
	if _, err := s.Open(sealed, []byte("run_2")); !errors.Is(err, sealing.ErrDamaged) {
		t.Errorf("another owner: %v", err)
	}
	if _, err := sealer(t, key(2)).Open(sealed, []byte("run_1")); !errors.Is(err, sealing.ErrUnknownKey) {
		t.Errorf("another key: %v", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := s.Open(changed, []byte("run_1")); err == nil {
			t.Errorf("opens with byte %d changed", i)
		}
		if _, err := s.Open(sealed[:i], []byte("run_1")); err == nil {
			t.Errorf("opens when cut at %d", i)
		}
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	before, after := sealer(t, key(1)), sealer(t, key(2), key(1))
	old := seal(t, before, "hunter2", "run_1")
	if got, err := after.Open(old, []byte("run_1")); err != nil || string(got) != "hunter2" {
		t.Errorf("after the rotation: %q, %v", got, err)
	}
	if after.IsCurrent(old) || !after.IsCurrent(seal(t, after, "x", "y")) || after.IsCurrent(nil) {
		t.Error("IsCurrent does not distinguish old from new")
	}
	if _, err := before.Open(seal(t, after, "x", "y"), []byte("y")); !errors.Is(err, sealing.ErrUnknownKey) {
		t.Errorf("sealed under the new key: %v", err)
	}
}

func TestKeyLength(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := sealing.NewSealer(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes was accepted", n)
		}
		if _, err := sealing.NewSealer(key(1), make([]byte, n)); err == nil {
			t.Errorf("an older key of %d bytes was accepted", n)
		}
	}
	if got := fmt.Sprintf("%+v", sealer(t, key(1))); got != "sealing.Sealer" {
		t.Errorf("a sealer prints %q", got)
	}
}

func FuzzOpen(f *testing.F) {
	s := sealer(f, key(1))
	f.Add(seal(f, s, "hunter2", "owner"))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if plain, err := s.Open(sealed, []byte("somebody")); err == nil {
			t.Errorf("opened a forged text: %q", plain)
		}
	})
}
