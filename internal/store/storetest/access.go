package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var accessCases = []testCase{
	{"EnsureMember creates missing rows with the given IDs", func(w *world) {
		want := w.member("acme", "ann", "viewer")
		got, err := w.s.EnsureMember(w.ctx, want)
		w.must(err, "EnsureMember")
		w.diff("member", want, got)
	}},
	{"EnsureMember finds by name and keeps the role", func(w *world) {
		first := w.member("acme", "ann", "viewer")
		_, err := w.s.EnsureMember(w.ctx, first)
		w.must(err, "EnsureMember")
		got, err := w.s.EnsureMember(w.ctx, w.member("acme", "ann", "owner"))
		w.must(err, "EnsureMember again")
		w.diff("identifiers and role", []string{first.OrgID, first.UserID, "viewer"}, []string{got.OrgID, got.UserID, got.Role})
	}},
	{"a user is the same in every organisation, with a role in each", func(w *world) {
		a, err := w.s.EnsureMember(w.ctx, w.member("acme", "ann", "owner"))
		w.must(err, "EnsureMember")
		b, err := w.s.EnsureMember(w.ctx, w.member("blue", "ann", "viewer"))
		w.must(err, "EnsureMember")
		w.diff("user", a.UserID, b.UserID)
		w.diff("roles", []string{"owner", "viewer"}, []string{a.Role, b.Role})
		if a.OrgID == b.OrgID {
			w.Errorf("two organisations share the identifier %s", a.OrgID)
		}
	}},
	{"concurrent EnsureMember creates one organisation and one user", func(w *world) {
		got := make([]store.Member, 16)
		w.concurrently(len(got), func(i int) (err error) {
			got[i], err = w.s.EnsureMember(w.ctx, w.member("acme", "ann", "member"))
			return err
		})
		for _, m := range got {
			w.diff("identifiers", []string{got[0].OrgID, got[0].UserID}, []string{m.OrgID, m.UserID})
		}
	}},
	{"TokenByHash returns organisation, user, and role", func(w *world) {
		want := w.home.token("ci", nil)
		got, err := w.s.TokenByHash(w.ctx, want.Hash)
		w.must(err, "TokenByHash")
		w.diff("token", want, got)
		_, err = w.s.TokenByHash(w.ctx, []byte(digest("another")))
		w.wantErr(err, store.ErrNotFound, "TokenByHash of an unknown hash")
	}},
	{"the token itself is never stored", func(w *world) {
		t := w.home.token("ci", func(t *store.Token) { t.Secret = "stint_live_0123" })
		got, err := w.s.TokenByHash(w.ctx, t.Hash)
		w.must(err, "TokenByHash")
		w.diff("secret", "", got.Secret)
	}},
	{"revoked and expired tokens are found by hash", func(w *world) {
		old := w.home.token("old", func(t *store.Token) { t.ExpiresAt = later(t.CreatedAt, -time.Hour) })
		got, err := w.s.TokenByHash(w.ctx, old.Hash)
		w.must(err, "TokenByHash of an expired token")
		w.diff("expiry", old.ExpiresAt, got.ExpiresAt)
		at := w.now()
		w.must(w.s.RevokeToken(w.ctx, w.home.org, old.ID, at), "RevokeToken")
		got, err = w.s.TokenByHash(w.ctx, old.Hash)
		w.must(err, "TokenByHash of a revoked token")
		w.diff("revokedAt", &at, got.RevokedAt)
	}},
	{"a revoked token is not listed and cannot be revoked again", func(w *world) {
		keep, drop := w.home.token("keep", nil), w.home.token("drop", nil)
		w.must(w.s.RevokeToken(w.ctx, w.home.org, drop.ID, w.now()), "RevokeToken")
		w.wantErr(w.s.RevokeToken(w.ctx, w.home.org, drop.ID, w.now()), store.ErrNotFound, "RevokeToken again")
		w.wantErr(w.s.RevokeToken(w.ctx, w.home.org, w.ids.New(stint.PrefixToken), w.now()), store.ErrNotFound, "RevokeToken of an unknown ID")
		list, err := w.s.Tokens(w.ctx, w.home.org, store.Range{Limit: 10})
		w.must(err, "Tokens")
		w.diff("list", []store.Token{keep}, list)
	}},
	{"Token returns a token by ID", func(w *world) {
		want := w.home.token("ci", nil)
		got, err := w.s.Token(w.ctx, w.home.org, want.ID)
		w.must(err, "Token")
		w.diff("token", want, got)
		_, err = w.s.Token(w.ctx, w.home.org, w.ids.New(stint.PrefixToken))
		w.wantErr(err, store.ErrNotFound, "Token of an unknown ID")
	}},
	{"TouchTokens keeps the latest time", func(w *world) {
		a, b := w.home.token("a", nil), w.home.token("b", nil)
		first, second := w.now(), w.now()
		w.must(w.s.TouchTokens(w.ctx, map[string]stint.Time{a.ID: second, b.ID: first}), "TouchTokens")
		w.must(w.s.TouchTokens(w.ctx, map[string]stint.Time{a.ID: first, b.ID: second}), "TouchTokens")
		w.must(w.s.TouchTokens(w.ctx, nil), "TouchTokens of nothing")
		for _, t := range []store.Token{a, b} {
			got, err := w.s.Token(w.ctx, w.home.org, t.ID)
			w.must(err, "Token")
			w.diff("lastUsedAt of "+t.Name, &second, got.LastUsedAt)
		}
	}},
}

func (w *world) member(org, user, role string) store.Member {
	return store.Member{
		OrgID: w.ids.New(stint.PrefixOrg), OrgName: org, UserID: w.ids.New(stint.PrefixUser), UserName: user,
		Role: role, CreatedAt: w.now(),
	}
}

// token stores and returns a token of the tenant's user. If change is not nil, token calls
// it to modify the token before storing it.
func (o *tenant) token(name string, change func(*store.Token)) store.Token {
	o.w.Helper()
	at := o.w.now()
	t := store.Token{
		Token: stint.Token{
			ID: o.w.ids.New(stint.PrefixToken), Name: name, TokenPrefix: "stint_live_ab", Scopes: []string{stint.ScopeRead, stint.ScopeWrite},
			CreatedAt: at, ExpiresAt: later(at, 24*time.Hour),
		},
		OrgID: o.org, OrgName: "home", UserID: o.user, UserName: "home-user", Role: "owner",
	}
	t.Hash = []byte(digest(t.ID))[:32]
	if change != nil {
		change(&t)
	}
	o.w.must(o.w.s.CreateToken(o.w.ctx, t), "CreateToken")
	return t
}

var secretCases = []testCase{
	{"PutSecret creates, then replaces and keeps createdAt", func(w *world) {
		first := w.home.secret("KEY", "one")
		created, err := w.s.PutSecret(w.ctx, first)
		w.must(err, "PutSecret")
		w.diff("created", true, created)
		second := w.home.secret("KEY", "two")
		created, err = w.s.PutSecret(w.ctx, second)
		w.must(err, "PutSecret again")
		w.diff("created", false, created)
		second.CreatedAt = first.CreatedAt
		list, err := w.s.Secrets(w.ctx, w.home.org)
		w.must(err, "Secrets")
		w.diff("secrets", []store.Secret{second}, list)
	}},
	{"PutSecret keeps hosts and agents that it does not set", func(w *world) {
		put := func(want store.Secret, change func(*store.Secret)) {
			w.Helper()
			s := w.home.secret("KEY", "x")
			s.CreatedAt, s.UpdatedAt = want.CreatedAt, want.UpdatedAt
			change(&s)
			_, err := w.s.PutSecret(w.ctx, s)
			w.must(err, "PutSecret")
			list, err := w.s.Secrets(w.ctx, w.home.org)
			w.must(err, "Secrets")
			w.diff("secrets", []store.Secret{want}, list)
		}
		want := w.home.secret("KEY", "x")
		want.Hosts, want.Agents = []string{"api.example.com", "*.example.org:443"}, []string{"reviewer"}
		put(want, func(s *store.Secret) { s.Hosts, s.Agents = want.Hosts, want.Agents })
		put(want, func(*store.Secret) {})
		want.Agents = []string{}
		put(want, func(s *store.Secret) { s.Agents = []string{} })
		want.Hosts = []string{"b.example.com"}
		put(want, func(s *store.Secret) { s.Hosts = want.Hosts })
	}},
	{"a new installation has no notices of secrets", func(w *world) {
		_, err := w.s.PutSecret(w.ctx, w.home.secret("KEY", "x"))
		w.must(err, "PutSecret")
		notices, err := w.s.SecretNotices(w.ctx)
		w.must(err, "SecretNotices")
		w.diff("notices", 0, len(notices))
	}},
	{"Secrets are listed by name", func(w *world) {
		for _, name := range []string{"B", "A", "b", "A_B", "C"} {
			_, err := w.s.PutSecret(w.ctx, w.home.secret(name, "x"))
			w.must(err, "PutSecret")
		}
		w.diff("names", []string{"A", "A_B", "B", "C", "b"}, w.home.secretNames())
	}},
	{"DeleteSecret removes one secret", func(w *world) {
		for _, name := range []string{"A", "B"} {
			_, err := w.s.PutSecret(w.ctx, w.home.secret(name, "x"))
			w.must(err, "PutSecret")
		}
		w.must(w.s.DeleteSecret(w.ctx, w.home.org, "A"), "DeleteSecret")
		w.wantErr(w.s.DeleteSecret(w.ctx, w.home.org, "A"), store.ErrNotFound, "DeleteSecret again")
		w.diff("names", []string{"B"}, w.home.secretNames())
	}},
	{"concurrent PutSecret creates a name once", func(w *world) {
		created := make([]bool, 16)
		w.concurrently(len(created), func(i int) (err error) {
			created[i], err = w.s.PutSecret(w.ctx, w.home.secret("KEY", fmt.Sprint(i)))
			return err
		})
		count := 0
		for _, c := range created {
			if c {
				count++
			}
		}
		w.diff("creations", 1, count)
		w.diff("names", []string{"KEY"}, w.home.secretNames())
	}},
	{"an organisation has at most MaxSecrets", func(w *world) {
		w.concurrently(20, func(k int) error {
			for i := k; i < store.MaxSecrets; i += 20 {
				if _, err := w.s.PutSecret(w.ctx, w.home.secret(fmt.Sprintf("S%04d", i), "x")); err != nil {
					return err
				}
			}
			return nil
		})
		w.diff("stored", store.MaxSecrets, len(w.home.secretNames()))
		_, err := w.s.PutSecret(w.ctx, w.home.secret("T", "x"))
		if e, ok := errors.AsType[*stint.Error](err); !ok || e.Code != stint.CodeInvalidState {
			w.Errorf("a secret beyond MaxSecrets: error %v, want the code %s", err, stint.CodeInvalidState)
		}
		_, err = w.s.PutSecret(w.ctx, w.home.secret("S0000", "y"))
		w.must(err, "PutSecret of a name that exists")
	}},
}

func (o *tenant) secret(name, sealed string) store.Secret {
	at := o.w.now()
	return store.Secret{Secret: stint.Secret{Name: name, CreatedAt: at, UpdatedAt: at}, OrgID: o.org, Sealed: []byte(sealed)}
}

func (o *tenant) secretNames() []string {
	o.w.Helper()
	list, err := o.w.s.Secrets(o.w.ctx, o.org)
	o.w.must(err, "Secrets")
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}
