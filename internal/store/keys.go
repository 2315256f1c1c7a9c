package store

import (
	"context"

	"github.com/stint-dev/stint"
)

// Keys keeps the keys that stored files are encrypted under, sealed, and finds
// everything else in the database that is sealed under the installation's key.
type Keys interface {
	// AddOrgKey stores a key, unless its organisation has one of that number;
	// it returns the one that is stored.
	AddOrgKey(ctx context.Context, k OrgKey) (OrgKey, error)
	// OrgKey finds a key by its number, or the one with the greatest for 0.
	OrgKey(ctx context.Context, org string, number uint32) (OrgKey, error)
	// OrgKeys lists keys of all organisations by organisation and number:
	// those after (org, number), at most limit.
	OrgKeys(ctx context.Context, org string, number uint32, limit int) ([]OrgKey, error)

	// SealedTexts lists what is sealed of a kind, by organisation and name:
	// texts after (Org, Name) of the given one, at most limit.
	SealedTexts(ctx context.Context, after SealedText, limit int) ([]SealedText, error)
	// Reseal puts a text in the place of old. When old is no longer what is
	// stored, nothing changes and done is false.
	Reseal(ctx context.Context, old SealedText, sealed []byte) (done bool, err error)
}

// OrgKey is a key that an organisation's files are encrypted under. The
// organisation "" owns what belongs to none.
type OrgKey struct {
	OrgID     string
	OrgName   string // read only; empty where there is no such organisation
	Number    uint32 // from 1; the greatest is current
	Sealed    []byte // bound to AssociatedData
	CreatedAt stint.Time
}

// AssociatedData is what the sealed key is bound to, so that it opens nowhere else.
func (k *OrgKey) AssociatedData() []byte {
	return SealedText{Kind: SealedOrgKey, Org: k.OrgID, Number: k.Number}.AssociatedData()
}

// SealedKind tells where a sealed text stands.
type SealedKind string

// The kinds, in the order in which a rotation takes them.
const (
	SealedOrgKey SealedKind = "org_key"
	SealedSecret SealedKind = "secret"
	SealedRun    SealedKind = "run" // the secrets of a run that has not ended
)

// SealedKinds lists all of them.
var SealedKinds = []SealedKind{SealedOrgKey, SealedSecret, SealedRun}

// SealedText is a text that is sealed under the installation's key. Org and
// Number tell an organisation's key, Org and Name a stored secret, Name a run.
type SealedText struct {
	Kind   SealedKind
	Org    string
	Name   string
	Number uint32
	Sealed []byte
}

// AssociatedData is what the text is bound to.
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
