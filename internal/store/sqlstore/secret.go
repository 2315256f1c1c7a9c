package sqlstore

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// PutSecret creates or replaces a secret. One beyond MaxSecrets is refused
// with an error fit for the user.
func (s *Store) PutSecret(ctx context.Context, sec store.Secret) (bool, error) {
	return change(ctx, s, "storing a secret", func(ctx context.Context, q Querier) (bool, error) {
		// The organisation's row is the lock under which secrets are counted.
		if _, err := all(ctx, q, value[string], `select l.id from orgs l where l.id = $1`+s.d.Lock, sec.OrgID); err != nil {
			return false, err
		}
		n, err := exec(ctx, q, `update secrets set sealed = $3, updated_at = $4 where org_id = $1 and name = $2`,
			sec.OrgID, sec.Name, sec.Sealed, micros(sec.UpdatedAt))
		if err != nil || n > 0 {
			return false, err
		}
		err = execOne(ctx, q, tooManySecrets(), `insert into secrets (org_id, name, sealed, created_at, updated_at)
			select $1, $2, $3, $4, $5 where (select count(*) from secrets where org_id = $1) < $6`,
			sec.OrgID, sec.Name, sec.Sealed, micros(sec.CreatedAt), micros(sec.UpdatedAt), store.MaxSecrets)
		return err == nil, err
	})
}

func tooManySecrets() error {
	return &stint.Error{
		Kind: stint.Conflict, Code: stint.CodeInvalidState, Param: "name",
		Message: fmt.Sprintf("An organisation keeps %d secrets at most. Delete one that is no longer used.", store.MaxSecrets),
	}
}

// Secrets lists the secrets of an organisation by name.
func (s *Store) Secrets(ctx context.Context, org string) ([]store.Secret, error) {
	list, err := all(ctx, s.db.Read, scanSecret, `select name, created_at, updated_at, org_id, sealed from secrets
		where org_id = $1 order by name limit $2`, org, store.MaxSecrets)
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
