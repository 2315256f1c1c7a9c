package sealed

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/sealing"
)

// Keys provides the keys that objects are encrypted under.
type Keys interface {
	// Key returns the owner's key with the given number. If number is 0, Key
	// returns the current key and creates it at first use. The owner is the ID of
	// an organisation, or "" for objects without an organisation. If there is no
	// key with the number, Key returns sealing.ErrNoDataKey.
	Key(ctx context.Context, owner string, number uint32) (sealing.DataKey, error)
}

// Store is a blob.Store that encrypts objects and stores them in another blob.Store.
// It is safe for concurrent use. Reading an object that is not encrypted returns
// ErrTampered.
type Store struct {
	inner blob.Store
	keys  Keys

	mu      sync.Mutex             // guards ciphers
	ciphers map[string]cipher.AEAD // ciphers of objects that were read, by object key
}

var _ blob.Store = (*Store)(nil)

// maxCiphers bounds the number of cached ciphers. Each takes about 1.5 KB.
const maxCiphers = 4096

// New returns a Store that stores its objects in inner.
func New(inner blob.Store, keys Keys) *Store {
	return &Store{inner: inner, keys: keys, ciphers: map[string]cipher.AEAD{}}
}

// owner returns the first element of key if it is the ID of an organisation, or "".
func owner(key string) string {
	first, _, _ := strings.Cut(key, "/")
	if strings.HasPrefix(first, stint.PrefixOrg) {
		return first
	}
	return ""
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	sealed, err := sizeSealed(size)
	if err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	current, err := s.keys.Key(ctx, owner(key), 0)
	if err != nil {
		return fmt.Errorf("encrypting %s: %w", key, err)
	}
	h, err := newHeader(current)
	if err != nil {
		return fmt.Errorf("encrypting %s: %w", key, err)
	}
	aead, err := h.cipher(current, key)
	if err != nil {
		return fmt.Errorf("encrypting %s: %w", key, err)
	}
	return s.inner.Put(ctx, key, newEncrypter(&h, aead, blob.ContextReader(ctx, r)), sealed)
}

// Get implements blob.Store. It decrypts the first block of the range before it
// returns.
func (s *Store) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if offset < 0 {
		return nil, fmt.Errorf("reading %s: the offset %d is negative", key, offset)
	}
	if n == 0 {
		if _, err := s.inner.Stat(ctx, key); err != nil {
			return nil, err
		}
		return io.NopCloser(strings.NewReader("")), nil
	}
	r, err := s.get(ctx, key, offset, n)
	if errors.Is(err, ErrTampered) && s.dropCipher(key) {
		// The object may have been deleted and put again since its cipher was cached.
		r, err = s.get(ctx, key, offset, n)
	}
	return r, err
}

func (s *Store) get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	first, span := offset/blockSize, int64(-1)
	if n > 0 && n <= maxSize && offset <= maxSize {
		span = ((offset+n-1)/blockSize-first+1)*sealedBlock + 1
	}
	d := &decrypter{name: key, block: first, skip: int(offset % blockSize), left: n}
	if err := s.begin(ctx, key, d, span); err != nil {
		return nil, err
	}
	switch err := d.next(); {
	case errors.Is(err, errPastEnd):
		d.err, d.last = io.EOF, true
		if err := s.checkEnd(ctx, key, d.aead, offset); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	case err != nil:
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// begin sets the decrypter's cipher and opens span bytes of the object (all if span is
// negative), beginning with the decrypter's first block. If the cipher is not cached,
// begin reads the header of the object first. The first block of the object is read with
// the same request as the header.
func (s *Store) begin(ctx context.Context, key string, d *decrypter, span int64) (err error) {
	var known bool
	if d.aead, known = s.cachedCipher(key); !known && d.block > 0 {
		if d.aead, err = s.readHeader(ctx, key); err != nil {
			return err
		}
		known = true
	}
	from := start(d.block)
	if !known {
		from = 0
		if span > 0 {
			span += int64(headerSize)
		}
	}
	r, err := s.inner.Get(ctx, key, from, span)
	if err != nil {
		return err
	}
	d.r, d.Closer = r, r
	if !known {
		if d.aead, err = s.readCipher(ctx, key, r); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	return nil
}

func (s *Store) readHeader(ctx context.Context, key string) (cipher.AEAD, error) {
	r, err := s.inner.Get(ctx, key, 0, int64(headerSize))
	if err != nil {
		return nil, err
	}
	aead, err := s.readCipher(ctx, key, r)
	return aead, errors.Join(err, r.Close())
}

// readCipher reads the header of an object from r and caches the cipher.
func (s *Store) readCipher(ctx context.Context, key string, r io.Reader) (cipher.AEAD, error) {
	var h header
	if n, err := blob.ReadFull(r, h[:]); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if n < len(h) {
		return nil, fmt.Errorf("%s: %w: it is too short", key, ErrTampered)
	}
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	k, err := s.keys.Key(ctx, owner(key), h.number())
	if err == nil {
		err = h.checkKey(k)
	}
	if err != nil {
		// If the key is missing or does not match, the object may still be intact:
		// the database may be older than the object, or may contain a newer key with
		// the same number.
		return nil, fmt.Errorf("decrypting %s: %w", key, err)
	}
	aead, err := h.cipher(k, key)
	if err == nil {
		s.cacheCipher(key, aead)
	}
	return aead, err
}

// checkEnd decrypts the last block of an object to verify that its content ends at
// or before offset. If it does not, checkEnd returns ErrTampered.
func (s *Store) checkEnd(ctx context.Context, key string, aead cipher.AEAD, offset int64) error {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return err
	}
	block := max(0, info.Size-1) / blockSize
	r, err := s.inner.Get(ctx, key, start(block), sealedBlock+1)
	if err != nil {
		return err
	}
	d := &decrypter{name: key, r: r, aead: aead, block: block, left: -1}
	_, err = d.decrypt()
	if err == nil && (!d.last || info.Size > offset) || errors.Is(err, errPastEnd) {
		err = fmt.Errorf("%s: %w: its end moved", key, ErrTampered)
	}
	return errors.Join(err, r.Close())
}

// Stat implements blob.Store. It does not read the object.
func (s *Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := s.inner.Stat(ctx, key)
	if err != nil {
		return blob.Info{}, err
	}
	return plainInfo(info)
}

func plainInfo(info blob.Info) (blob.Info, error) {
	n, ok := sizePlain(info.Size)
	if !ok {
		return info, fmt.Errorf("%s: %w: no object has %d bytes", info.Key, ErrTampered, info.Size)
	}
	return blob.Info{Key: info.Key, Size: n}, nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	s.dropCipher(key)
	return s.inner.Delete(ctx, key)
}

// List implements blob.Store. An object with an impossible stored size is listed with
// its stored size.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range s.inner.List(ctx, prefix) {
			if err == nil {
				info, _ = plainInfo(info) // reading the object reports the damage
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s *Store) cachedCipher(key string) (cipher.AEAD, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	aead, ok := s.ciphers[key]
	return aead, ok
}

// cacheCipher adds the cipher of an object to the cache. If the cache is full, it
// removes an arbitrary cipher.
func (s *Store) cacheCipher(key string, aead cipher.AEAD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.ciphers {
		if len(s.ciphers) < maxCiphers {
			break
		}
		delete(s.ciphers, other)
	}
	s.ciphers[key] = aead
}

// dropCipher removes the cipher of an object from the cache and reports whether it
// was there.
func (s *Store) dropCipher(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ciphers[key]
	delete(s.ciphers, key)
	return ok
}
