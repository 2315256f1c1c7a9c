// Package keyring answers: which keys are files encrypted under?
//
// Each organisation has keys of its own, numbered from 1, made at first use.
// The newest is current: what is written now is encrypted under it. Older ones
// stay for what was written before, so a rotation writes no file anew. The keys
// stand in the database, sealed under the installation's key, which never
// touches a file: when that one changes, the keys are sealed anew (Reseal) and
// the files stay as they are.
package keyring

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
)

// Sealer encrypts keys for their owner under the installation's key;
// *secret.Sealer is one.
type Sealer interface {
	Seal(plain, owner []byte) ([]byte, error)
	Open(sealed, owner []byte) ([]byte, error)
	// IsCurrent reports whether a text is sealed under the newest key.
	IsCurrent(sealed []byte) bool
}

// Config is what a Keyring needs. Now defaults to the real clock. Fresh is how
// long another server's rotation may stay unseen; it defaults to a minute.
type Config struct {
	Store  store.Keys
	Sealer Sealer
	Now    func() time.Time
	Fresh  time.Duration
}

// Keyring keeps keys. It is safe for concurrent use, also by several servers
// that share a database.
type Keyring struct {
	c Config

	mu      sync.Mutex // guards the maps
	keys    map[name]sealing.DataKey
	current map[string]current // by owner
}

type name struct {
	owner  string
	number uint32
}

type current struct {
	number uint32
	until  time.Time
}

// maxRemembered bounds what is kept of keys in memory.
const maxRemembered = 10_000

// New makes a keyring.
func New(c Config) *Keyring {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Fresh == 0 {
		c.Fresh = time.Minute
	}
	return &Keyring{c: c, keys: map[name]sealing.DataKey{}, current: map[string]current{}}
}

// Key gives an owner's key of that number, or the current one for 0, which is
// made at first use. secret.ErrNoDataKey says that there is none.
func (k *Keyring) Key(ctx context.Context, owner string, number uint32) (sealing.DataKey, error) {
	if key, ok := k.remembered(owner, number); ok {
		return key, nil
	}
	row, err := k.c.Store.OrgKey(ctx, owner, number)
	switch {
	case errors.Is(err, store.ErrNotFound) && number == 0:
		row, err = k.add(ctx, owner, 1)
	case errors.Is(err, store.ErrNotFound):
		return sealing.DataKey{}, fmt.Errorf("key %d of %s: %w", number, title(owner), sealing.ErrNoDataKey)
	}
	if err != nil {
		return sealing.DataKey{}, fmt.Errorf("read the key of %s: %w", title(owner), err)
	}
	return k.open(row, number == 0)
}

// Rotate makes a new key the owner's current one and tells of it. Servers that
// share the database use it after Config.Fresh at the latest. Of two rotations
// at once one may do for both.
func (k *Keyring) Rotate(ctx context.Context, owner string) (store.OrgKey, error) {
	newest, err := k.c.Store.OrgKey(ctx, owner, 0)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.OrgKey{}, fmt.Errorf("read the key of %s: %w", title(owner), err)
	}
	row, err := k.add(ctx, owner, newest.Number+1)
	if err != nil {
		return store.OrgKey{}, fmt.Errorf("add a key of %s: %w", title(owner), err)
	}
	_, err = k.open(row, true)
	return row, err
}

// add stores a new key, and gives the one that was first under that number.
func (k *Keyring) add(ctx context.Context, owner string, number uint32) (store.OrgKey, error) {
	row := store.OrgKey{OrgID: owner, Number: number, CreatedAt: stint.TimeOf(k.c.Now())}
	key := make([]byte, sealing.KeySize)
	rand.Read(key) // never fails
	var err error
	if row.Sealed, err = k.c.Sealer.Seal(key, row.AssociatedData()); err != nil {
		return store.OrgKey{}, err
	}
	return k.c.Store.AddOrgKey(ctx, row)
}

func (k *Keyring) open(row store.OrgKey, isCurrent bool) (sealing.DataKey, error) {
	plain, err := k.c.Sealer.Open(row.Sealed, row.AssociatedData())
	if err == nil && len(plain) != sealing.KeySize {
		err = sealing.ErrDamaged
	}
	if err != nil {
		return sealing.DataKey{}, fmt.Errorf("open the key %d of %s: %w", row.Number, title(row.OrgID), err)
	}
	key := sealing.DataKey{Number: row.Number, Secret: [sealing.KeySize]byte(plain)}
	k.remember(row.OrgID, key, isCurrent)
	return key, nil
}

func (k *Keyring) remembered(owner string, number uint32) (sealing.DataKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if number == 0 {
		c := k.current[owner]
		if !k.c.Now().Before(c.until) {
			return sealing.DataKey{}, false
		}
		number = c.number
	}
	key, ok := k.keys[name{owner, number}]
	return key, ok
}

// remember makes room by forgetting any other. An older current key does not
// replace a newer one: two reads may end in either order.
func (k *Keyring) remember(owner string, key sealing.DataKey, isCurrent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	makeRoom(k.keys)
	k.keys[name{owner, key.Number}] = key
	if isCurrent && k.current[owner].number <= key.Number {
		makeRoom(k.current)
		k.current[owner] = current{key.Number, k.c.Now().Add(k.c.Fresh)}
	}
}

func makeRoom[K comparable, V any](m map[K]V) {
	for other := range m {
		if len(m) < maxRemembered {
			return
		}
		delete(m, other)
	}
}

// title names an owner in errors.
func title(owner string) string {
	if owner == "" {
		return "the installation"
	}
	return owner
}
