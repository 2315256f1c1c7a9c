package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/store"
)

const selectOrgKeys = `select k.org_id, coalesce(o.name, ''), k.number, k.sealed, k.created_at
	from org_keys k left join orgs o on o.id = k.org_id`

func scanOrgKey(r Row) (k store.OrgKey, err error) {
	return k, r.Scan(&k.OrgID, &k.OrgName, &k.Number, &k.Sealed, timeAt{&k.CreatedAt})
}

// AddOrgKey stores a key unless the organisation has a key with the same number, and
// returns the stored key.
func (s *Store) AddOrgKey(ctx context.Context, k store.OrgKey) (store.OrgKey, error) {
	return change(ctx, s, "storing a key", func(ctx context.Context, q Querier) (store.OrgKey, error) {
		if _, err := exec(ctx, q, `insert into org_keys (org_id, number, sealed, created_at) values ($1, $2, $3, $4) on conflict do nothing`,
			k.OrgID, int64(k.Number), k.Sealed, micros(k.CreatedAt)); err != nil {
			return k, err
		}
		return one(ctx, q, scanOrgKey, selectOrgKeys+` where k.org_id = $1 and k.number = $2`, k.OrgID, int64(k.Number))
	})
}

// OrgKey returns a key by its number; 0 means the greatest number.
func (s *Store) OrgKey(ctx context.Context, org string, number uint32) (store.OrgKey, error) {
	return get(ctx, s, "reading a key", scanOrgKey, selectOrgKeys+` where k.org_id = $1 and ($2 = 0 or k.number = $2)
		order by k.number desc limit 1`, org, int64(number))
}

// OrgKeys returns keys ordered by organisation and number.
func (s *Store) OrgKeys(ctx context.Context, org string, number uint32, limit int) ([]store.OrgKey, error) {
	return list(ctx, s, "listing keys", scanOrgKey, selectOrgKeys+` where (k.org_id, k.number) > ($1, $2)
		order by k.org_id, k.number limit $3`, org, int64(number), limit)
}

// sealedTexts contains the statements for each kind of sealed text. list returns up to
// $4 texts after the organisation $1, name $2, and number $3. replace replaces the
// sealed bytes $5 of the text ($1, $2, $3) by $4.
var sealedTexts = map[store.SealedKind]struct{ list, replace string }{
	store.SealedOrgKey: {
		`select org_id, '', number, sealed from org_keys where (org_id, number) > ($1, $3) and $2 = '' order by org_id, number limit $4`,
		`update org_keys set sealed = $4 where org_id = $1 and $2 = '' and number = $3 and sealed = $5`,
	},
	store.SealedSecret: {
		`select org_id, name, 0, sealed from secrets where (org_id, name) > ($1, $2) and $3 = 0 order by org_id, name limit $4`,
		`update secrets set sealed = $4 where org_id = $1 and name = $2 and $3 = 0 and sealed = $5`,
	},
	store.SealedRun: {
		`select '', run_id, 0, sealed from run_specs where run_id > $2 and sealed is not null and $1 = '' and $3 = 0 order by run_id limit $4`,
		`update run_specs set sealed = $4 where run_id = $2 and $1 = '' and $3 = 0 and sealed = $5`,
	},
}

// SealedTexts returns sealed texts of one kind.
func (s *Store) SealedTexts(ctx context.Context, after store.SealedText, limit int) ([]store.SealedText, error) {
	scan := func(r Row) (store.SealedText, error) {
		t := store.SealedText{Kind: after.Kind}
		return t, r.Scan(&t.Org, &t.Name, &t.Number, &t.Sealed)
	}
	return list(ctx, s, "listing sealed texts", scan, sealedTexts[after.Kind].list, after.Org, after.Name, int64(after.Number), limit)
}

// Reseal replaces a sealed text if it has not changed.
func (s *Store) Reseal(ctx context.Context, old store.SealedText, sealed []byte) (bool, error) {
	return change(ctx, s, "resealing", func(ctx context.Context, q Querier) (bool, error) {
		n, err := exec(ctx, q, sealedTexts[old.Kind].replace, old.Org, old.Name, int64(old.Number), sealed, old.Sealed)
		return n > 0, err
	})
}
