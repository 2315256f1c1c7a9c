package sqlstore

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// PutSecret creates or replaces a secret. If the secret would exceed the organisation's
// limits, the error is a *stint.Error.
func (s *Store) PutSecret(ctx context.Context, sec store.Secret) (bool, error) {
	return change(ctx, s, "storing a secret", func(ctx context.Context, q Querier) (bool, error) {
		// Locking the organisation's row serialises the counting of secrets.
		if _, err := all(ctx, q, value[string], `select l.id from orgs l where l.id = $1`+s.d.Lock, sec.OrgID); err != nil {
			return false, err
		}
		u, err := one(ctx, q, scanSecretUsage, `select count(*), coalesce(sum(length(sealed)), 0), coalesce(max(case when name = $2 then length(sealed) end), 0)
			from secrets where org_id = $1`, sec.OrgID, sec.Name)
		if err == nil {
			err = u.check(int64(len(sec.Sealed)))
		}
		if err != nil {
			return false, err
		}
		n, err := exec(ctx, q, `update secrets set sealed = $3, updated_at = $4, hosts = coalesce($5, hosts), agents = coalesce($6, agents)
			where org_id = $1 and name = $2`,
			sec.OrgID, sec.Name, sec.Sealed, micros(sec.UpdatedAt), asJSON(sec.Hosts), asJSON(sec.Agents))
		if err != nil || n > 0 {
			return false, err
		}
		_, err = exec(ctx, q, `insert into secrets (org_id, name, sealed, created_at, updated_at, hosts, agents) values ($1, $2, $3, $4, $5, $6, $7)`,
			sec.OrgID, sec.Name, sec.Sealed, micros(sec.CreatedAt), micros(sec.UpdatedAt), asJSON(sec.Hosts), asJSON(sec.Agents))
		return err == nil, err
	})
}

// secretUsage contains the number of an organisation's secrets, the total of their
// sealed bytes, and the sealed bytes of the secret to be replaced (0 if none exists).
type secretUsage struct{ count, size, replaced int64 }

func scanSecretUsage(r Row) (u secretUsage, err error) {
	return u, r.Scan(&u.count, &u.size, &u.replaced)
}

// check returns an error if a secret of the given sealed size would exceed the
// limits. A secret that is not longer than the one it replaces is always accepted.
func (u secretUsage) check(size int64) error {
	after := u.count
	if u.replaced == 0 {
		after++
	}
	switch {
	case after > max(store.MaxSecrets, u.count):
		return stint.InvalidState("An organisation can store at most %d secrets. Delete one that is no longer used.", store.MaxSecrets)
	case size > u.replaced && u.size-u.replaced+size-after*store.SealOverhead > store.MaxSecretBytes:
		return stint.InvalidState("An organisation's secrets can have at most %d bytes together. Delete one that is no longer used, or make this one shorter.", store.MaxSecretBytes)
	}
	return nil
}

// Secrets returns the secrets of an organisation, sorted by name.
func (s *Store) Secrets(ctx context.Context, org string) ([]store.Secret, error) {
	return list(ctx, s, "listing secrets", scanSecret, `select name, hosts, agents, created_at, updated_at, org_id, sealed, unnamed from secrets
		where org_id = $1 order by name`, org)
}

func scanSecret(r Row) (sec store.Secret, err error) {
	return sec, r.Scan(&sec.Name, jsonOf{&sec.Hosts}, jsonOf{&sec.Agents}, timeAt{&sec.CreatedAt}, timeAt{&sec.UpdatedAt}, &sec.OrgID, &sec.Sealed, &sec.Unnamed)
}

// DeleteSecret removes a secret.
func (s *Store) DeleteSecret(ctx context.Context, org, name string) error {
	return s.writeOne(ctx, "deleting a secret", store.ErrNotFound, `delete from secrets where org_id = $1 and name = $2`, org, name)
}

// SecretNotices returns the organisations to be warned, and marks them as warned.
func (s *Store) SecretNotices(ctx context.Context) ([]store.SecretNotice, error) {
	return change(ctx, s, "reading the notices of secrets", func(ctx context.Context, q Querier) ([]store.SecretNotice, error) {
		return all(ctx, q, scanSecretNotice, `update orgs set secrets_notice = 0 where secrets_notice = 1 returning name,
			(select count(*) from secrets s where s.org_id = orgs.id and s.unnamed = 1),
			(select count(*) from agents a where a.org_id = orgs.id and a.unnamed_secrets = 1 and a.deleted_at is null)`)
	})
}

func scanSecretNotice(r Row) (n store.SecretNotice, err error) {
	return n, r.Scan(&n.OrgName, &n.Secrets, &n.Agents)
}
