// Package ledger answers: how much does an organisation keep, and may it keep
// more?
//
// A Store counts what another blob.Store holds for each organisation, which is
// the first element of a key, and refuses what would exceed a limit. What
// counts is what lies in the storage: every object, compressed, each chunk once
// however many versions hold it, until a collection has deleted it.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
)

// Options adjusts a Store; the zero value counts and refuses nothing.
type Options struct {
	Limit int64 // bytes of an organisation; 0 is none
	// Recount is how long a count is believed where other processes write to
	// the same storage; 0 is for ever.
	Recount time.Duration
	Now     func() time.Time // defaults to the real clock
	// Uncounted tells objects by their keys that the organisation is not
	// charged for: those that we make for our own sake. nil is none.
	Uncounted func(key string) bool
}

// Store is a blob.Store that counts. It is safe for concurrent use.
type Store struct {
	blob.Store
	o Options
	*books
}

// books are what is known of all organisations.
type books struct {
	mu       sync.Mutex // guards accounts
	accounts map[string]*account
}

// account is what is known of an organisation.
type account struct {
	// changing is held shared while an object comes or goes, and alone while
	// objects are counted.
	changing sync.RWMutex

	mu      sync.Mutex // guards what follows
	used    blob.Used
	counted time.Time // zero: never
}

// New makes a Store that keeps its objects in inner.
func New(inner blob.Store, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Uncounted == nil {
		o.Uncounted = func(string) bool { return false }
	}
	return &Store{Store: inner, o: o, books: &books{accounts: map[string]*account{}}}
}

// Through is a store that keeps its objects in inner and counts them with
// those of s. Both must hold the same.
func (s *Store) Through(inner blob.Store) *Store { return &Store{Store: inner, o: s.o, books: s.books} }

// Blobs is the store with what the one below offers beyond: links, where it
// gives them.
func (s *Store) Blobs() blob.Store {
	if p, ok := s.Store.(blob.Presigner); ok {
		return struct {
			*Store
			blob.Presigner
		}{s, p}
	}
	return s
}

// Used tells what an organisation keeps. It counts at the first call, which
// lists the organisation's objects, and remembers.
func (s *Store) Used(ctx context.Context, org string) (blob.Used, error) {
	a := s.account(org)
	if err := s.count(ctx, org, a); err != nil {
		return blob.Used{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used, nil
}

// Limit is the bytes that an organisation may keep; 0 is no limit.
func (s *Store) Limit() int64 { return s.o.Limit }

func (b *books) account(org string) *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[org]
	if a == nil {
		a = &account{}
		b.accounts[org] = a
	}
	return a
}

// count lists what the organisation keeps, if that is not known.
func (s *Store) count(ctx context.Context, org string, a *account) error {
	if s.known(a) {
		return nil
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	if s.known(a) {
		return nil
	}
	var used blob.Used
	for info, err := range s.List(ctx, org+"/") {
		if err != nil {
			return fmt.Errorf("counting what %s keeps: %w", org, err)
		}
		if s.o.Uncounted(info.Key) {
			continue
		}
		used.Bytes += info.Size
		used.Objects++
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used, a.counted = used, s.o.Now()
	return nil
}

func (s *Store) known(a *account) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.counted.IsZero() && (s.o.Recount == 0 || s.o.Now().Sub(a.counted) < s.o.Recount)
}

// Put implements blob.Store. What would exceed the limit is a Forbidden
// *stint.Error.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	org, _, ok := strings.Cut(key, "/")
	if !ok || s.o.Uncounted(key) {
		return s.Store.Put(ctx, key, r, size)
	}
	a := s.account(org)
	if s.o.Limit > 0 {
		if err := s.count(ctx, org, a); err != nil {
			return err
		}
	}
	a.changing.RLock()
	defer a.changing.RUnlock()
	m := &metered{r: r, a: a, limit: s.o.Limit}
	if err := m.take(max(size, 0)); err != nil {
		return err
	}
	m.sized = size >= 0
	err := s.Store.Put(ctx, key, m, size)
	if err != nil {
		m.giveBack()
	}
	return err
}

// metered counts an object while it is read.
type metered struct {
	r     io.Reader
	a     *account
	limit int64
	sized bool // its size is counted already
	taken int64
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	if !m.sized && n > 0 {
		if full := m.add(int64(n)); full != nil {
			return n, full
		}
	}
	return n, err
}

// take counts the object and its first n bytes.
func (m *metered) take(n int64) error {
	if err := m.add(n); err != nil {
		return err
	}
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	m.a.used.Objects++
	return nil
}

func (m *metered) add(n int64) error {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.limit > 0 && m.a.used.Bytes+n > m.limit {
		return full(m.limit)
	}
	m.a.used.Bytes += n
	m.taken += n
	return nil
}

func (m *metered) giveBack() {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	m.a.used.Bytes -= m.taken
	m.a.used.Objects--
}

func full(limit int64) error {
	return &stint.Error{
		Kind: stint.Forbidden, Code: stint.CodeQuotaExceeded,
		Message: fmt.Sprintf("Your organisation may keep %s of files and this would be more. Delete artifacts, volumes or versions that are no longer needed, or ask the operator for more.", stint.Size(limit)),
	}
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	org, _, ok := strings.Cut(key, "/")
	if !ok || s.o.Uncounted(key) {
		return s.Store.Delete(ctx, key)
	}
	a := s.account(org)
	a.changing.RLock()
	defer a.changing.RUnlock()
	info, err := s.Stat(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err == nil || errors.Is(err, blob.ErrDamaged) {
		err = s.Store.Delete(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("deleting %q: %w", key, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used.Bytes -= info.Size
	a.used.Objects--
	return nil
}
