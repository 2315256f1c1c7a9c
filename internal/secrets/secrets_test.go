package secrets_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/secrets"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

func codeOf(err error) string {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sealer, err := sealing.NewSealer(make([]byte, sealing.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	ids := stint.NewIDs(time.Now, rand.Reader)
	member, err := s.EnsureMember(ctx, store.Member{
		OrgID: ids.New(stint.PrefixOrg), OrgName: "acme", UserID: ids.New(stint.PrefixUser), UserName: "ann", Role: auth.RoleOwner, CreatedAt: stint.TimeOf(at),
	})
	if err != nil {
		t.Fatal(err)
	}
	service := secrets.New(secrets.Config{Store: s, Sealer: sealer, Now: func() time.Time { return at }})
	c := auth.Caller{OrgID: member.OrgID, Scopes: stint.Scopes}

	for _, name := range []string{"B", "A", "C"} {
		want := stint.Secret{Name: name, CreatedAt: stint.TimeOf(at), UpdatedAt: stint.TimeOf(at)}
		got, created, err := service.Put(ctx, c, name, stint.NewSecret{Value: "value of " + name})
		if d := cmp.Diff(want, got); err != nil || !created || d != "" {
			t.Errorf("Put(%s) returned %v, %v (-want +got):\n%s", name, created, err, d)
		}
	}
	first := at
	at = at.Add(time.Hour)
	got, created, err := service.Put(ctx, c, "A", stint.NewSecret{Value: "another"})
	if d := cmp.Diff(stint.Secret{Name: "A", CreatedAt: stint.TimeOf(first), UpdatedAt: stint.TimeOf(at)}, got); err != nil || created || d != "" {
		t.Errorf("replacing returned %v, %v (-want +got):\n%s", created, err, d)
	}
	page, err := service.List(ctx, c, "A", 1)
	if err != nil || len(page) != 1 || page[0].Name != "B" {
		t.Errorf("the page after A is %v, %v", page, err)
	}
	rows, err := s.Secrets(ctx, c.OrgID)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := sealer.Open(rows[0].Sealed, rows[0].AssociatedData())
	if err != nil || string(plain) != "another" || strings.Contains(string(rows[0].Sealed), "another") {
		t.Errorf("the stored value is %q, opened %q, %v", rows[0].Sealed, plain, err)
	}
	if extra := len(rows[0].Sealed) - len(plain); extra != store.SealOverhead {
		t.Errorf("sealing adds %d bytes, want %d", extra, store.SealOverhead)
	}
	if store.MaxSecrets > masking.MaxValues || store.MaxSecretBytes > masking.MaxTotalSize {
		t.Error("the limits of stored secrets exceed those of the masker")
	}
	if err := service.Delete(ctx, c, "B"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"B", "", "no name", "\x00"} {
		if err := service.Delete(ctx, c, name); codeOf(err) != stint.CodeResourceNotFound {
			t.Errorf("deleting %q returned %v", name, err)
		}
	}
	for name, want := range map[string]string{"1A": stint.CodeInvalidParameter, "LD_PRELOAD": stint.CodeInvalidParameter, "": stint.CodeInvalidParameter} {
		if _, _, err := service.Put(ctx, c, name, stint.NewSecret{Value: "value"}); codeOf(err) != want {
			t.Errorf("the name %q returned %v", name, err)
		}
	}
	for value, want := range map[string]string{"": stint.CodeMissingParameter, "\x00": stint.CodeInvalidParameter, strings.Repeat("x", 32<<10+1): stint.CodeInvalidParameter} {
		if _, _, err := service.Put(ctx, c, "A", stint.NewSecret{Value: value}); codeOf(err) != want {
			t.Errorf("a value of %d bytes returned %v", len(value), err)
		}
	}
	writer := auth.Caller{OrgID: c.OrgID, Scopes: []string{"write"}}
	_, _, put := service.Put(ctx, writer, "A", stint.NewSecret{Value: "x"})
	_, list := service.List(ctx, writer, "", 1)
	for verb, err := range map[string]error{"put": put, "list": list, "delete": service.Delete(ctx, writer, "A")} {
		if codeOf(err) != stint.CodeInsufficientScope {
			t.Errorf("%s with the scope write returned %v", verb, err)
		}
	}
}
