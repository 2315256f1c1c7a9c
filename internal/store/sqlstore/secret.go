package sqlstore

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// PutSecret creates or replaces a secret. What is beyond the bounds of an
// organisation's secrets is refused with an error fit for the user.
func (s *Store) PutSecret(ctx context.Context, sec store.Secret) (bool, error) {
	return change(ctx, s, "storing a secret", func(ctx context.Context, q Querier) (bool, error) {
		// The organisation's row is the lock under which secrets are counted.
		if _, err := all(ctx, q, value[string], `select l.id from orgs l where l.id = $1`+s.d.Lock, sec.OrgID); err != nil {
			return false, err
		}
		h, err := one(ctx, q, scanHeld, `select count(*), coalesce(sum(length(sealed)), 0), coalesce(max(case when name = $2 then length(sealed) end), 0)
			from secrets where org_id = $1`, sec.OrgID, sec.Name)
		if err == nil {
			err = h.room(int64(len(sec.Sealed)))
		}
		if err != nil {
			return false, err
		}
		n, err := exec(ctx, q, `update secrets set sealed = $3, updated_at = $4 where org_id = $1 and name = $2`,
			sec.OrgID, sec.Name, sec.Sealed, micros(sec.UpdatedAt))
		if err != nil || n > 0 {
			return false, err
		}
		_, err = exec(ctx, q, `insert into secrets (org_id, name, sealed, created_at, updated_at) values ($1, $2, $3, $4, $5)`,
			sec.OrgID, sec.Name, sec.Sealed, micros(sec.CreatedAt), micros(sec.UpdatedAt))
		return err == nil, err
	})
}

// held is what an organisation stores: so many secrets, with so many sealed
// bytes, of which so many are to be replaced.
type held struct{ count, size, replaced int64 }

func scanHeld(r row) (h held, err error) { return h, r.Scan(&h.count, &h.size, &h.replaced) }

// room refuses a secret of so many sealed bytes that the others leave no room
// for. One that replaces a larger one is taken in any case.
func (h held) room(size int64) error {
	after := h.count
	if h.replaced == 0 {
		after++
	}
	switch {
	case after > max(store.MaxSecrets, h.count):
		return stint.InvalidState("An organisation keeps %d secrets at most. Delete one that is no longer used.", store.MaxSecrets)
	case size > h.replaced && h.size-h.replaced+size-after*store.SealOverhead > store.MaxSecretBytes:
		return stint.InvalidState("An organisation's secrets may have %d bytes together. Delete one that is no longer used, or make this one shorter.", store.MaxSecretBytes)
	}
	return nil
}

// Secrets lists the secrets of an organisation by name.
func (s *Store) Secrets(ctx context.Context, org string) ([]store.Secret, error) {
	list, err := all(ctx, s.db.Read, scanSecret, `select name, created_at, updated_at, org_id, sealed from secrets
		where org_id = $1 order by name`, org)
	return list, s.Wrap("listing secrets", err)
}

func scanSecret(r row) (sec store.Secret, err error) {
	return sec, r.Scan(&sec.Name, timeAt{&sec.CreatedAt}, timeAt{&sec.UpdatedAt}, &sec.OrgID, &sec.Sealed)
}

// DeleteSecret removes a secret.
func (s *Store) DeleteSecret(ctx context.Context, org, name string) error {
	return s.write(ctx, "deleting a secret", func(ctx context.Context, q Querier) error {
		return execOne(ctx, q, store.ErrNotFound, `delete from secrets where org_id = $1 and name = $2`, org, name)
	})
}
