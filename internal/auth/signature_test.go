package auth_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

func signer(t testing.TB, key byte) *auth.Service {
	t.Helper()
	return auth.New(auth.Config{Key: bytes.Repeat([]byte{key}, auth.KeySize)})
}

func TestVerifyCursor(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	cursor := s.SignCursor("org_a", "/v1/runs?status=failed", []byte("position"))
	if got, ok := signer(t, 1).VerifyCursor("org_a", "/v1/runs?status=failed", cursor); !ok || string(got) != "position" {
		t.Errorf("another process with the same key returned %q, %v", got, ok)
	}
	for why, try := range map[string]func() ([]byte, bool){
		"another organisation": func() ([]byte, bool) { return s.VerifyCursor("org_b", "/v1/runs?status=failed", cursor) },
		"another filter":       func() ([]byte, bool) { return s.VerifyCursor("org_a", "/v1/runs", cursor) },
		"shifted boundary":     func() ([]byte, bool) { return s.VerifyCursor("org_a/", "v1/runs?status=failed", cursor) },
		"another key":          func() ([]byte, bool) { return signer(t, 2).VerifyCursor("org_a", "/v1/runs?status=failed", cursor) },
		"a line break": func() ([]byte, bool) {
			return s.VerifyCursor("org_a", "/v1/runs?status=failed", cursor[:4]+"\n"+cursor[4:])
		},
		"padding": func() ([]byte, bool) { return s.VerifyCursor("org_a", "/v1/runs?status=failed", cursor+"=") },
		"empty":   func() ([]byte, bool) { return s.VerifyCursor("org_a", "/v1/runs?status=failed", "") },
	} {
		if got, ok := try(); ok {
			t.Errorf("%s: the cursor was accepted with the position %q", why, got)
		}
	}
}

func TestVerifyCursorWithChangedCharacter(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	cursor := s.SignCursor("org_a", "list", []byte("1767366245000000 run_1"))
	for i := range cursor {
		for _, c := range []byte("ABab01-_= \n") {
			if changed := cursor[:i] + string(c) + cursor[i+1:]; changed != cursor {
				if _, ok := s.VerifyCursor("org_a", "list", changed); ok {
					t.Errorf("a cursor with character %d changed to %q was accepted", i, c)
				}
			}
		}
	}
}

func FuzzCursor(f *testing.F) {
	s := signer(f, 1)
	good := s.SignCursor("org_a", "list", []byte("position"))
	f.Add(good)
	f.Add("")
	f.Add(good[:len(good)-1])
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, cursor string) {
		if _, ok := s.VerifyCursor("org_a", "list", cursor); ok && cursor != good {
			t.Errorf("the invalid cursor %q was accepted", cursor)
		}
	})
}

func TestLinks(t *testing.T) {
	w := newWorld(t)
	want := auth.Link{OrgID: "org_a", Kind: stint.Volumes, FileSetID: "vol_1", VersionID: "v1_x"}
	text, err := w.auth.SignLink(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.another().VerifyLink(text)
	want.Expires = w.at.Add(time.Hour).Unix()
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("link, %v (-want +got):\n%s", err, d)
	}
	if _, err := w.auth.VerifyLink(text + "A"); stint.KindOf(err) != stint.KindForbidden {
		t.Error("a modified link was accepted")
	}
	if _, err := w.auth.VerifyLink(w.auth.SignCursor("", "", []byte(`{"o":"org_a","e":99999999999}`))); stint.KindOf(err) != stint.KindForbidden {
		t.Error("a cursor was accepted as a link")
	}
	w.pass(time.Hour - time.Second)
	if _, err := w.auth.VerifyLink(text); err != nil {
		t.Error("the link expired before one hour")
	}
	w.pass(time.Second)
	if _, err := w.auth.VerifyLink(text); stint.KindOf(err) != stint.KindGone {
		t.Error("the link is still valid after one hour")
	}
	if _, err := w.auth.VerifyLink(text + "A"); stint.KindOf(err) != stint.KindForbidden {
		t.Error("a modified link is expired instead of invalid")
	}
}

func TestStreamTokens(t *testing.T) {
	w := newWorld(t)
	token := w.login("acme", "ann")
	c := w.caller(token.Secret)
	streamToken, expires, err := w.auth.StreamToken(c, "run_1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(stint.TimeOf(w.at.Add(5*time.Minute)), expires); d != "" {
		t.Errorf("expiry (-want +got):\n%s", d)
	}
	for _, s := range []*auth.Service{w.auth, w.another()} {
		got, err := s.AuthenticateStream(t.Context(), streamToken, "run_1")
		want := c
		want.Scopes = []string{"read"}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("caller, %v (-want +got):\n%s", err, d)
		}
	}
	checkRefused := func(why, token, run string) {
		t.Helper()
		if _, err := w.auth.AuthenticateStream(t.Context(), token, run); !errors.Is(err, auth.ErrInvalidKey) {
			t.Errorf("%s: %v, want ErrInvalidKey", why, err)
		}
	}
	checkRefused("another run", streamToken, "run_2")
	checkRefused("an API token", token.Secret, "run_1")
	checkRefused("empty", "", "run_1")
	w.checkRefused(w.auth, streamToken, "a stream token as an API token")
	w.pass(5*time.Minute - time.Millisecond)
	if _, err := w.auth.AuthenticateStream(t.Context(), streamToken, "run_1"); err != nil {
		t.Errorf("just before the expiry: %v", err)
	}
	w.pass(time.Millisecond)
	checkRefused("expired", streamToken, "run_1")

	fresh, _, err := w.auth.StreamToken(c, "run_1")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.auth.RevokeToken(t.Context(), c, token.ID); err != nil {
		t.Fatal(err)
	}
	checkRefused("of a revoked token", fresh, "run_1")
}

func TestSealAnswer(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	plain := []byte(`{"token":"stint_live_secret"}`)
	sealed, err := s.SealAnswer(plain, "org_a key")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("secret")) {
		t.Error("the sealed response contains the plain text")
	}
	got, err := signer(t, 1).OpenAnswer(sealed, "org_a key")
	if d := cmp.Diff(plain, got); err != nil || d != "" {
		t.Errorf("opened, %v (-want +got):\n%s", err, d)
	}
	if _, err := s.OpenAnswer(sealed, "org_b key"); err == nil {
		t.Error("OpenAnswer succeeded with another bound value")
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := s.OpenAnswer(changed, "org_a key"); err == nil {
			t.Errorf("OpenAnswer succeeded with byte %d changed", i)
		}
		if _, err := s.OpenAnswer(sealed[:i], "org_a key"); err == nil {
			t.Errorf("OpenAnswer succeeded with only %d bytes", i)
		}
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	a := s.Fingerprint([]byte("ab"), []byte("c"))
	if !bytes.Equal(a, signer(t, 1).Fingerprint([]byte("ab"), []byte("c"))) {
		t.Error("equal parts have different fingerprints")
	}
	if bytes.Equal(a, s.Fingerprint([]byte("a"), []byte("bc"))) || bytes.Equal(a, signer(t, 2).Fingerprint([]byte("ab"), []byte("c"))) {
		t.Error("different parts, or different keys, have the same fingerprint")
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	w := benchWorld(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.auth.Authenticate(b.Context(), w.secret); err != nil {
			b.Fatal(err)
		}
	}
}

type bench struct {
	auth   *auth.Service
	secret string
}

func benchWorld(b *testing.B) *bench {
	b.Helper()
	s := openStore(b)
	a := auth.New(auth.Config{Store: s, IDs: stint.NewIDs(time.Now, rand.Reader), Key: make([]byte, auth.KeySize)})
	token, err := a.Login(b.Context(), "acme", "ann", stint.NewToken{Name: "laptop"})
	if err != nil {
		b.Fatal(err)
	}
	return &bench{a, token.Secret}
}
