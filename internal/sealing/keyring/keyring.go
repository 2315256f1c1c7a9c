// Package keyring manages the data keys under which objects are encrypted.
//
// Each owner (an organisation or the installation) has its own keys, numbered from 1
// and created at first use. New objects are encrypted under the newest, current key.
// Older keys are kept to read older objects, so a rotation does not rewrite objects.
// The data keys are stored in the database, sealed under the key in the installation's
// key file. If that key changes, the data keys are resealed (see Reseal), and the
// objects do not change.
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

// Config configures a Keyring. Now defaults to time.Now. Fresh is the maximum time
// until a rotation by another server is noticed; it defaults to a minute.
type Config struct {
	Store  store.Keys
	Sealer *sealing.Sealer // with the keys of the installation
	Now    func() time.Time
	Fresh  time.Duration
}

// Keyring creates, caches, and rotates keys. It is safe for concurrent use, and several
// servers that share a database can each use one.
type Keyring struct {
	c Config

	mu      sync.Mutex // guards the maps
	keys    map[keyID]sealing.DataKey
	current map[string]current // by owner
}

type keyID struct {
	owner  string
	number uint32
}

type current struct {
	number uint32
	until  time.Time
}

// maxCached bounds the keys that are cached in memory.
const maxCached = 10_000

// New returns a keyring.
func New(c Config) *Keyring {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Fresh == 0 {
		c.Fresh = time.Minute
	}
	return &Keyring{c: c, keys: map[keyID]sealing.DataKey{}, current: map[string]current{}}
}

// Key returns the owner's key with the given number. For number 0 it returns the
// current key, and creates the first key if the owner has none. If another number does
// not exist, the error is sealing.ErrNoDataKey.
func (k *Keyring) Key(ctx context.Context, owner string, number uint32) (sealing.DataKey, error) {
	if key, ok := k.cached(owner, number); ok {
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

// Rotate creates a new current key of the owner and returns its row. Other servers
// that share the database use it within Config.Fresh. Two concurrent rotations may
// create only one key, which both return.
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

// add stores a new key and returns it. If the owner already has a key with the number,
// add returns the stored key.
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
	k.cache(row.OrgID, key, isCurrent)
	return key, nil
}

func (k *Keyring) cached(owner string, number uint32) (sealing.DataKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if number == 0 {
		c := k.current[owner]
		if !k.c.Now().Before(c.until) {
			return sealing.DataKey{}, false
		}
		number = c.number
	}
	key, ok := k.keys[keyID{owner, number}]
	return key, ok
}

// cache adds a key and removes others if the cache is full. A current key with a
// smaller number does not replace one with a greater number, because two concurrent
// reads can end in either order.
func (k *Keyring) cache(owner string, key sealing.DataKey, isCurrent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	makeRoom(k.keys)
	k.keys[keyID{owner, key.Number}] = key
	if isCurrent && k.current[owner].number <= key.Number {
		makeRoom(k.current)
		k.current[owner] = current{key.Number, k.c.Now().Add(k.c.Fresh)}
	}
}

func makeRoom[K comparable, V any](m map[K]V) {
	for other := range m {
		if len(m) < maxCached {
			return
		}
		delete(m, other)
	}
}

// title returns the name of an owner for messages.
func title(owner string) string {
	if owner == "" {
		return "the installation"
	}
	return owner
}
