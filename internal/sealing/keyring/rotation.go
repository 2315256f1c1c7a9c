package keyring

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Info tells of a key, and never the key.
type Info struct {
	Org       string     `json:"org"` // empty for what belongs to no organisation
	OrgName   string     `json:"orgName,omitempty"`
	Number    uint32     `json:"number"`
	Current   bool       `json:"current"`
	CreatedAt stint.Time `json:"createdAt"`
}

// pageSize is how many rows are asked for at once.
const pageSize = 500

// List tells of all keys, by organisation and number.
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

// RotateAll rotates the keys of an organisation, told by its identifier or
// name, or of all that have one and of the installation for "". It tells of the
// new ones.
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

// Reseal seals everything in the database that is not sealed under the
// sealer's newest key under that one, and tells how much that was. When it
// returns without an error, older keys are needed no more, provided that
// nobody sealed anything under one meanwhile. It may be run again at any time.
func Reseal(ctx context.Context, s store.Keys, sealer Sealer) (count int, err error) {
	for _, kind := range store.SealedKinds {
		n, err := resealKind(ctx, s, sealer, kind)
		if count += n; err != nil {
			return count, err
		}
	}
	return count, nil
}

// resealKind goes on after a text that does not open and tells of it at last.
func resealKind(ctx context.Context, s store.Keys, sealer Sealer, kind store.SealedKind) (count int, err error) {
	var faults []error
	for at := (store.SealedText{Kind: kind}); ; {
		page, err := s.SealedTexts(ctx, at, pageSize)
		if err != nil {
			return count, fmt.Errorf("list what is sealed: %w", err)
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
			if err != nil && len(faults) < 10 {
				faults = append(faults, err)
			}
		}
		if len(page) < pageSize {
			return count, errors.Join(faults...)
		}
	}
}

func reseal(ctx context.Context, s store.Keys, sealer Sealer, t store.SealedText) (bool, error) {
	plain, err := sealer.Open(t.Sealed, t.AssociatedData())
	if err != nil {
		return false, fmt.Errorf("open the %s %s%s: %w", describe(t), t.Org, t.Name, err)
	}
	sealed, err := sealer.Seal(plain, t.AssociatedData())
	if err != nil {
		return false, errors.New("seal anew") // the cause might quote the text
	}
	done, err := s.Reseal(ctx, t, sealed)
	if err == nil && !done {
		return false, nil // it was replaced or deleted meanwhile
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
