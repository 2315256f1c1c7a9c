package app

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/sealing/keyring"
)

// keys contains the installation's keys, which are derived from the keys in its key
// file. The newest key encrypts and signs; all keys decrypt.
type keys struct {
	sealer  *sealing.Sealer
	signing []byte
}

const keyFile = "key" // in the data folder

func openKeys(d *dataFolder) (*keys, error) {
	roots, err := sealing.LoadOrCreateKeys(d.join(keyFile))
	if err != nil {
		return nil, fmt.Errorf("open the installation's key: %w", err)
	}
	return deriveKeys(roots)
}

func deriveKeys(roots [][]byte) (*keys, error) {
	var sealers [][]byte
	for _, root := range roots {
		key, err := hkdf.Key(sha256.New, root, nil, "stint sealing v1", sealing.KeySize)
		if err != nil {
			return nil, fmt.Errorf("derive sealing key: %w", err)
		}
		sealers = append(sealers, key)
	}
	signing, err := hkdf.Key(sha256.New, roots[0], nil, "stint signing v1", sealing.KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive signing key: %w", err)
	}
	sealer, err := sealing.NewSealer(sealers[0], sealers[1:]...)
	if err != nil {
		return nil, fmt.Errorf("open sealer: %w", err)
	}
	return &keys{sealer: sealer, signing: signing}, nil
}

// Keys manages the keys of an installation while its server does not run. While Keys is
// open, the server cannot start.
type Keys struct {
	*keyring.Keyring
	s *server
}

// OpenKeys opens the keys of the installation in the data folder c.Data.
func OpenKeys(ctx context.Context, c config.Config) (*Keys, error) {
	if err := checkInstalled(c); err != nil {
		return nil, err
	}
	s := newServer(c, nil)
	if err := s.openDatabase(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &Keys{Keyring: s.keyring, s: s}, nil
}

// Close closes the installation.
func (k *Keys) Close() error { return k.s.close() }

// RotateInstallation creates a new installation key, encrypts all sealed values
// in the database with it, removes the older keys, and returns the number of
// values. After an interruption it can be called again. During the call, no server may
// use the database. After the call, the Keyring cannot be used.
func (k *Keys) RotateInstallation(ctx context.Context) (int, error) {
	path := k.s.data.join(keyFile)
	roots, err := sealing.LoadOrCreateKeys(path)
	if err == nil && len(roots) == 1 {
		roots, err = sealing.AddKey(path)
	}
	if err != nil {
		return 0, fmt.Errorf("create a new installation key: %w", err)
	}
	now, err := deriveKeys(roots)
	if err != nil {
		return 0, err
	}
	count, err := keyring.Reseal(ctx, k.s.db, now.sealer)
	if err != nil {
		return count, fmt.Errorf("encrypt with the new key (the older one is kept until all is done; run this again): %w", err)
	}
	if err := sealing.DropOlderKeys(path); err != nil {
		return count, fmt.Errorf("remove the older key: %w", err)
	}
	return count, nil
}
