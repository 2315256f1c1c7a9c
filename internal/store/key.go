package store

import (
	"context"

	"github.com/stint-dev/stint"
)

// Keys stores the sealed keys of the organisations, which encrypt their files,
// and finds every text in the database that is sealed under the installation's
// key.
type Keys interface {
	// AddOrgKey stores a key unless the organisation already has a key with the
	// same number. It returns the key that is then stored.
	AddOrgKey(ctx context.Context, k OrgKey) (OrgKey, error)
	// OrgKey returns a key by its number; 0 means the greatest number.
	OrgKey(ctx context.Context, org string, number uint32) (OrgKey, error)
	// OrgKeys returns up to limit keys of all organisations after (org,
	// number), ordered by organisation and number.
	OrgKeys(ctx context.Context, org string, number uint32, limit int) ([]OrgKey, error)

	// SealedTexts returns up to limit sealed texts of after.Kind that follow
	// after, ordered by organisation, name, and number.
	SealedTexts(ctx context.Context, after SealedText, limit int) ([]SealedText, error)
	// Reseal replaces the sealed bytes of old. If the stored bytes differ from
	// old.Sealed, nothing changes and done is false.
	Reseal(ctx context.Context, old SealedText, sealed []byte) (done bool, err error)
}

// OrgKey is a key that encrypts an organisation's files. The key of
// organisation "" encrypts files without an organisation.
type OrgKey struct {
	OrgID     string
	OrgName   string // set when read, ignored when stored; empty if the organisation does not exist
	Number    uint32 // from 1; the key with the greatest number is current
	Sealed    []byte // the key, sealed with AssociatedData
	CreatedAt stint.Time
}

// AssociatedData returns the data that the sealed key is authenticated with, so that
// the sealed form of one key cannot be used as that of another.
func (k *OrgKey) AssociatedData() []byte {
	return SealedText{Kind: SealedOrgKey, Org: k.OrgID, Number: k.Number}.AssociatedData()
}

// SealedKind is the kind of a sealed text, which determines where it is stored.
type SealedKind string

// The kinds of sealed texts, in the order in which a key rotation visits them.
const (
	SealedOrgKey SealedKind = "org_key"
	SealedSecret SealedKind = "secret"
	SealedRun    SealedKind = "run" // the secrets of an unfinished run
)

// SealedKinds lists all kinds.
var SealedKinds = []SealedKind{SealedOrgKey, SealedSecret, SealedRun}

// SealedText is a text that is sealed under the installation's key. Org and
// Number identify an organisation's key, Org and Name a stored secret, and Name
// a run.
type SealedText struct {
	Kind   SealedKind
	Org    string
	Name   string
	Number uint32
	Sealed []byte
}

// AssociatedData returns the data that the text is authenticated with.
func (t SealedText) AssociatedData() []byte {
	switch t.Kind {
	case SealedOrgKey:
		n := t.Number
		return append([]byte("org key\x00"+t.Org+"\x00"), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	case SealedSecret:
		s := Secret{OrgID: t.Org}
		s.Name = t.Name
		return s.AssociatedData()
	}
	return []byte(t.Name)
}
