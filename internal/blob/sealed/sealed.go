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

// Keys gives the keys that objects are sealed under.
type Keys interface {
	// Key gives an owner's key of that number, or the current one for 0, made
	// at first use. An owner is an organisation, or "" for what belongs to
	// none. secret.ErrNoDataKey says that there is no key of that number: what
	// is sealed under it cannot be opened, and is not ErrTampered. Nor is what a
	// key of that number was for that is lost, which is ErrOtherKey.
	Key(ctx context.Context, owner string, number uint32) (sealing.DataKey, error)
}

// Store is a blob.Store whose objects rest encrypted in another. It is safe
// for concurrent use. An object that was never sealed is ErrTampered.
type Store struct {
	inner blob.Store
	keys  Keys

	mu      sync.Mutex             // guards ciphers
	ciphers map[string]cipher.AEAD // of objects that were read lately
}

var _ blob.Store = (*Store)(nil)

// maxCiphers bounds what is remembered of objects: about 1.5 KB each.
const maxCiphers = 4096

// New encrypts what is put into inner.
func New(inner blob.Store, keys Keys) *Store {
	return &Store{inner: inner, keys: keys, ciphers: map[string]cipher.AEAD{}}
}

// owner is the organisation that a key names first, or "".
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
		return fmt.Errorf("sealing %s: %w", key, err)
	}
	h, err := newHeader(current)
	if err != nil {
		return fmt.Errorf("sealing %s: %w", key, err)
	}
	aead, err := h.cipher(current, key)
	if err != nil {
		return fmt.Errorf("sealing %s: %w", key, err)
	}
	return s.inner.Put(ctx, key, newSealer(&h, aead, reader{ctx, r}), sealed)
}

// reader ends when its context does, also within a block.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// Get implements blob.Store. The first block of the range is opened before it
// returns.
func (s *Store) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
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
	if errors.Is(err, ErrTampered) && s.forget(key) {
		// The object may have been deleted and put again since its cipher was made.
		r, err = s.get(ctx, key, offset, n)
	}
	return r, err
}

func (s *Store) get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	first, span := offset/blockSize, int64(-1)
	if n > 0 && n <= maxSize && offset <= maxSize {
		span = ((offset+n-1)/blockSize-first+1)*sealedBlock + 1
	}
	o := &opener{name: key, block: first, skip: int(offset % blockSize), left: n}
	if err := s.begin(ctx, key, o, span); err != nil {
		return nil, err
	}
	switch err := o.next(); {
	case errors.Is(err, errPastEnd):
		o.err, o.last = io.EOF, true
		if err := s.checkEnd(ctx, key, o.aead, offset); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	case err != nil:
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// begin finds the object's cipher and its blocks from the opener's first on,
// span bytes of them. Where the range begins with the object one request
// reads both.
func (s *Store) begin(ctx context.Context, key string, o *opener, span int64) (err error) {
	var known bool
	if o.aead, known = s.remembered(key); !known && o.block > 0 {
		if o.aead, err = s.readHeader(ctx, key); err != nil {
			return err
		}
		known = true
	}
	from := start(o.block)
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
	o.r, o.Closer = r, r
	if !known {
		if o.aead, err = s.readCipher(ctx, key, r); err != nil {
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

// readCipher makes the cipher of the object that r begins, and remembers it.
func (s *Store) readCipher(ctx context.Context, key string, r io.Reader) (cipher.AEAD, error) {
	var h header
	if n, err := fill(r, h[:]); err != nil && !errors.Is(err, io.EOF) {
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
		// Without its key the object may be as sound as ever: the database may be
		// older than it is, or have a newer key under that number since.
		return nil, fmt.Errorf("opening %s: %w", key, err)
	}
	aead, err := h.cipher(k, key)
	if err == nil {
		s.remember(key, aead)
	}
	return aead, err
}

// checkEnd holds an object that has nothing at offset to its last block.
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
	o := &opener{name: key, r: r, aead: aead, block: block, left: -1}
	_, err = o.open()
	if err == nil && (!o.last || info.Size > offset) || errors.Is(err, errPastEnd) {
		err = fmt.Errorf("%s: %w: its end moved", key, ErrTampered)
	}
	return errors.Join(err, r.Close())
}

// Stat implements blob.Store. It reads nothing of the object.
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
	s.forget(key)
	return s.inner.Delete(ctx, key)
}

// List implements blob.Store. An object whose size cannot be is listed with it.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range s.inner.List(ctx, prefix) {
			if err == nil {
				info, _ = plainInfo(info) // who reads it learns that it is damaged
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s *Store) remembered(key string) (cipher.AEAD, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	aead, ok := s.ciphers[key]
	return aead, ok
}

// remember makes room by forgetting any other.
func (s *Store) remember(key string, aead cipher.AEAD) {
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

// forget reports whether there was something to forget.
func (s *Store) forget(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ciphers[key]
	delete(s.ciphers, key)
	return ok
}
