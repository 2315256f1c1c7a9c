package keyring

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
)

// Info describes a key without its secret.
type Info struct {
	Org       string     `json:"org"` // empty for the key of the installation
	OrgName   string     `json:"orgName,omitempty"`
	Number    uint32     `json:"number"`
	Current   bool       `json:"current"`
	CreatedAt stint.Time `json:"createdAt"`
}

// pageSize is the number of rows per query.
const pageSize = 500

// List returns all keys, ordered by organisation and number.
func (k *Keyring) List(ctx context.Context) ([]Info, error) {
	list := []Info{}
	for at := (store.OrgKey{}); ; {
		page, err := k.c.Store.OrgKeys(ctx, at.OrgID, at.Number, pageSize)
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		for _, row := range page {
			if n := len(list); n > 0 && list[n-1].Org == row.OrgID {
				list[n-1].Current = false
			}
			list = append(list, info(row))
			at = row
		}
		if len(page) < pageSize {
			return list, nil
		}
	}
}

func info(row store.OrgKey) Info {
	return Info{Org: row.OrgID, OrgName: row.OrgName, Number: row.Number, Current: true, CreatedAt: row.CreatedAt}
}

// RotateAll rotates the key of an organisation, given by its identifier or name, and
// returns the new key. If org is "", it rotates the key of each organisation that has
// one, and that of the installation if it has one.
func (k *Keyring) RotateAll(ctx context.Context, org string) ([]Info, error) {
	all, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	rotated := []Info{}
	for _, i := range all {
		if !i.Current || org != "" && org != i.Org && org != i.OrgName {
			continue
		}
		row, err := k.Rotate(ctx, i.Org)
		if err != nil {
			return rotated, err
		}
		rotated = append(rotated, info(row))
	}
	if org != "" && len(rotated) == 0 {
		return nil, stint.NotFound("organisation with encrypted files", org)
	}
	return rotated, nil
}

// Reseal seals all texts in the database under the sealer's newest key, and returns
// the number of texts that it changed. After it succeeds, older keys are no longer
// needed, unless another process sealed a text under an older key in the meantime. It
// can be repeated at any time.
func Reseal(ctx context.Context, s store.Keys, sealer *sealing.Sealer) (count int, err error) {
	for _, kind := range store.SealedKinds {
		n, err := resealKind(ctx, s, sealer, kind)
		if count += n; err != nil {
			return count, err
		}
	}
	return count, nil
}

// resealKind reseals the texts of one kind. If a text cannot be resealed, it continues
// with the others and returns up to 10 such errors at the end.
func resealKind(ctx context.Context, s store.Keys, sealer *sealing.Sealer, kind store.SealedKind) (count int, err error) {
	var errs []error
	for at := (store.SealedText{Kind: kind}); ; {
		page, err := s.SealedTexts(ctx, at, pageSize)
		if err != nil {
			return count, fmt.Errorf("list sealed texts: %w", err)
		}
		for _, t := range page {
			at = t
			if sealer.IsCurrent(t.Sealed) {
				continue
			}
			done, err := reseal(ctx, s, sealer, t)
			if done {
				count++
			}
			if err != nil && len(errs) < 10 {
				errs = append(errs, err)
			}
		}
		if len(page) < pageSize {
			return count, errors.Join(errs...)
		}
	}
}

func reseal(ctx context.Context, s store.Keys, sealer *sealing.Sealer, t store.SealedText) (bool, error) {
	plain, err := sealer.Open(t.Sealed, t.AssociatedData())
	if err != nil {
		return false, fmt.Errorf("open the %s %s%s: %w", describe(t), t.Org, t.Name, err)
	}
	sealed, err := sealer.Seal(plain, t.AssociatedData())
	if err != nil {
		return false, errors.New("seal again") // the cause could contain the text
	}
	done, err := s.Reseal(ctx, t, sealed)
	if err == nil && !done {
		return false, nil // the text was replaced or deleted concurrently
	}
	return done, err
}

func describe(t store.SealedText) string {
	switch t.Kind {
	case store.SealedOrgKey:
		return fmt.Sprintf("key %d of", t.Number)
	case store.SealedSecret:
		return "secret"
	}
	return "secrets of"
}
