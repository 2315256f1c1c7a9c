package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// EnsureMember returns the membership of user m.UserName in organisation
// m.OrgName. It creates missing rows from m; an existing membership keeps its
// identifiers and role.
func (s *Store) EnsureMember(ctx context.Context, m store.Member) (store.Member, error) {
	return change(ctx, s, "ensuring a member", func(ctx context.Context, q Querier) (store.Member, error) {
		at := micros(m.CreatedAt)
		err := run(ctx, q,
			step(`insert into orgs (id, name, created_at) values ($1, $2, $3) on conflict do nothing`, m.OrgID, m.OrgName, at),
			step(`insert into users (id, name, created_at) values ($1, $2, $3) on conflict do nothing`, m.UserID, m.UserName, at),
			step(`insert into members (org_id, user_id, role, created_at)
				select o.id, u.id, $3, $4 from orgs o, users u where o.name = $1 and u.name = $2
				on conflict do nothing`, m.OrgName, m.UserName, m.Role, at))
		if err != nil {
			return m, err
		}
		return one(ctx, q, scanMember, `select o.id, o.name, u.id, u.name, m.role, m.created_at
			from members m join orgs o on o.id = m.org_id join users u on u.id = m.user_id
			where o.name = $1 and u.name = $2`, m.OrgName, m.UserName)
	})
}

func scanMember(r Row) (m store.Member, err error) {
	return m, r.Scan(&m.OrgID, &m.OrgName, &m.UserID, &m.UserName, &m.Role, timeAt{&m.CreatedAt})
}

const (
	tokenColumns = `select t.id, t.name, t.prefix, t.scopes, t.last_used_at, t.expires_at, t.created_at, t.hash,
		t.org_id, o.name, t.user_id, u.name, m.role, t.revoked_at`
	tokenOwners = ` join orgs o on o.id = t.org_id join users u on u.id = t.user_id
		join members m on m.org_id = t.org_id and m.user_id = t.user_id`
	selectTokens = tokenColumns + ` from tokens t` + tokenOwners
)

func scanToken(r Row) (t store.Token, err error) {
	return t, r.Scan(&t.ID, freeText{&t.Name}, &t.TokenPrefix, jsonOf{&t.Scopes}, timeOr{&t.LastUsedAt}, timeAt{&t.ExpiresAt}, timeAt{&t.CreatedAt},
		&t.Hash, &t.OrgID, &t.OrgName, &t.UserID, &t.UserName, &t.Role, timeOr{&t.RevokedAt})
}

// CreateToken stores a token. If its hash or ID is in use, the error is
// store.ErrExists.
func (s *Store) CreateToken(ctx context.Context, t store.Token) error {
	return s.writeOne(ctx, "creating a token", store.ErrExists, `insert into tokens
			(id, org_id, user_id, name, prefix, scopes, hash, created_at, expires_at, last_used_at, revoked_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) on conflict do nothing`,
		t.ID, t.OrgID, t.UserID, t.Name, t.TokenPrefix, asJSON(slices.Concat([]string{}, t.Scopes)), t.Hash,
		micros(t.CreatedAt), micros(t.ExpiresAt), microsOrNil(t.LastUsedAt), microsOrNil(t.RevokedAt))
}

// TokenByHash returns the token with the given hash, even if it was revoked or
// has expired. For an unknown hash, the error is store.ErrNotFound.
func (s *Store) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	return get(ctx, s, "finding a token", scanToken, selectTokens+` where t.hash = $1`, hash)
}

// Token returns an organisation's token by ID. If the ID is unknown or the token
// was revoked, the error is store.ErrNotFound.
func (s *Store) Token(ctx context.Context, org, id string) (store.Token, error) {
	return get(ctx, s, "reading a token", scanToken, selectTokens+` where t.id = $1 and t.org_id = $2 and t.revoked_at is null`, id, org)
}

// Tokens returns a page of an organisation's tokens that are not revoked, newest
// first.
func (s *Store) Tokens(ctx context.Context, org string, r store.Range) ([]store.Token, error) {
	page := newQuery(`select * from tokens`).of(org, r).and("revoked_at is null").page(r)
	return list(ctx, s, "listing tokens", scanToken, `with t as (`+page.text.String()+`) `+tokenColumns+` from t`+tokenOwners+
		` order by t.created_at desc, t.id desc`, page.args...)
}

// TouchTokens records, by token ID, when tokens were last used. It ignores times
// before the recorded ones.
func (s *Store) TouchTokens(ctx context.Context, used map[string]stint.Time) error {
	if len(used) == 0 {
		return nil
	}
	used = maps.Clone(used)
	return s.write(ctx, "touching tokens", func(ctx context.Context, q Querier) error {
		var steps []Step
		for _, id := range slices.Sorted(maps.Keys(used)) {
			steps = append(steps, step(`update tokens set last_used_at = $2
				where id = $1 and (last_used_at is null or last_used_at < $2)`, id, micros(used[id])))
		}
		return run(ctx, q, steps...)
	})
}

// RevokeToken revokes an organisation's token. If the ID is unknown or the token
// was already revoked, the error is store.ErrNotFound.
func (s *Store) RevokeToken(ctx context.Context, org, id string, at stint.Time) error {
	return s.writeOne(ctx, "revoking a token", store.ErrNotFound, `update tokens set revoked_at = $3
		where id = $1 and org_id = $2 and revoked_at is null`, id, org, micros(at))
}
