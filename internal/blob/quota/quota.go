// Package quota answers: how much does an organisation keep, and may it keep
// more?
//
// A Store counts what another blob.Store holds for each organisation, which is
// the first element of a key, and refuses what would exceed a limit. What
// counts is what lies in the storage: every object, compressed, each chunk once
// however many versions hold it, until a collection has deleted it.
package quota

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
	*accounts
}

// accounts are what is known of all organisations, and who counts.
type accounts struct {
	ctx    context.Context // of those who count, until Close
	cancel context.CancelFunc
	counts sync.WaitGroup

	mu       sync.Mutex // guards what follows; taken after an account's
	closed   bool
	accounts map[string]*account
}

var errClosed = errors.New("quota: the store is closed")

// New makes a Store that keeps its objects in inner. The caller closes it.
func New(inner blob.Store, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Uncounted == nil {
		o.Uncounted = func(string) bool { return false }
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Store{Store: inner, o: o, accounts: &accounts{ctx: ctx, cancel: cancel, accounts: map[string]*account{}}}
}

// Close ends what counts. What needs a first count fails from then on.
func (b *accounts) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.counts.Wait()
	return nil
}

// start runs f beside, for which Close waits; false after that.
func (b *accounts) start(f func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.counts.Go(func() { f(b.ctx) })
	}
	return !b.closed
}

// Wrap is a store that keeps its objects in inner and counts them with
// those of s. Both must hold the same.
func (s *Store) Wrap(inner blob.Store) *Store {
	return &Store{Store: inner, o: s.o, accounts: s.accounts}
}

// WithLinks is the store with what the one below offers beyond: links, where it
// gives them.
func (s *Store) WithLinks() blob.Store {
	if p, ok := s.Store.(blob.Presigner); ok {
		return struct {
			*Store
			blob.Presigner
		}{s, p}
	}
	return s
}

// Usage tells what an organisation keeps. The first call waits until that is
// counted, which lists the organisation's objects.
func (s *Store) Usage(ctx context.Context, org string) (blob.Usage, error) {
	a := s.account(org)
	if err := s.ready(ctx, org, a); err != nil {
		return blob.Usage{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.kept
	add(&used, a.coming.Bytes, a.coming.Objects)
	return used, nil
}

// Limit is the bytes that an organisation may keep; 0 is no limit.
func (s *Store) Limit() int64 { return s.o.Limit }

func (b *accounts) account(org string) *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[org]
	if a == nil {
		a = &account{moving: map[string]int{}}
		b.accounts[org] = a
	}
	return a
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
		if err := s.ready(ctx, org, a); err != nil {
			return err
		}
	}
	m := &metered{r: r, a: a, limit: s.o.Limit}
	if err := m.take(max(size, 0), 1); err != nil {
		return err
	}
	m.sized = size >= 0
	a.begin(key)
	err := s.Store.Put(ctx, key, m, size)
	a.mu.Lock()
	defer a.mu.Unlock()
	add(&a.coming, -m.taken, -1)
	if err != nil {
		a.end(key, 0, 0)
		return err
	}
	a.end(key, m.taken, 1)
	return nil
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
		if full := m.take(int64(n), 0); full != nil {
			return n, full
		}
	}
	return n, err
}

// take counts what comes, unless that is too much.
func (m *metered) take(bytes, objects int64) error {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.limit > 0 && m.a.kept.Bytes+m.a.coming.Bytes+bytes > m.limit {
		return full(m.limit)
	}
	add(&m.a.coming, bytes, objects)
	m.taken += bytes
	return nil
}

func full(limit int64) error {
	return &stint.Error{
		Kind: stint.KindForbidden, Code: stint.CodeQuotaExceeded,
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
	a.begin(key)
	info, err := s.Stat(ctx, key)
	there := !errors.Is(err, blob.ErrNotFound)
	if err == nil || errors.Is(err, blob.ErrDamaged) {
		err = s.Store.Delete(ctx, key)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if there && err == nil {
		a.end(key, -info.Size, -1)
		return nil
	}
	a.end(key, 0, 0)
	if !there {
		return nil
	}
	return fmt.Errorf("deleting %q: %w", key, err)
}
